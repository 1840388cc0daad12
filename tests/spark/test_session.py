"""The session builder: which settings it sets, which it keeps, and which win."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from odradek.spark import session as session_module
from odradek.spark.session import NoSpark, local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_ONLY = ("spark.sql.shuffle.partitions", "spark.sql.streaming.checkpointFileManagerClass", "spark.driver.memory")


def test_error_without_pyspark_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(NoSpark, match=r"pip install 'odradek\[spark\]'"):
        local_session("app")


@pytest.mark.parametrize(
    ("master", "cores"),
    [
        ("local", 1),
        ("local[3]", 3),
        ("local[*]", os.cpu_count()),
        ("local[2, 4]", 2),
        ("local[*, 4]", os.cpu_count()),
        ("local-cluster[2, 3, 1024]", 6),
    ],
)
def test_shuffle_partitions_equal_the_cores(master: str, cores: int) -> None:
    settings = session_module.settings("app", master, {})
    assert settings["spark.sql.shuffle.partitions"] == str(cores)
    assert all(name in settings for name in LOCAL_ONLY)


def test_a_cluster_keeps_its_own_settings() -> None:
    settings = session_module.settings("app", "spark://host:7077", {})
    assert not any(name in settings for name in LOCAL_ONLY)
    assert settings["spark.python.unix.domain.socket.enabled"] == "true"


def test_settings_of_the_caller_win() -> None:
    settings = session_module.settings("app", "local[2]", {"spark.sql.session.timeZone": "CET", "spark.x": "y"})
    assert settings["spark.sql.session.timeZone"] == "CET"
    assert settings["spark.x"] == "y"


def test_driver_memory_is_a_quarter_of_the_machine_within_bounds() -> None:
    assert 1024 <= session_module._driver_memory_mib() <= 4096


@pytest.mark.parametrize(
    ("master", "python"),
    [
        ("local[2]", sys.executable),
        ("spark://127.0.0.1:7077", sys.executable),
        ("spark://host:7077", sys.executable),
        ("yarn", None),
    ],
)
def test_workers_run_the_python_of_the_driver_except_on_yarn(
    master: str, python: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYSPARK_PYTHON", "SPARK_LOCAL_IP", "ODRADEK_SPARK_APPLICATION", "JAVA_HOME"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")  # a JVM is running, so no Java is searched for
    session_module._prepare_environment("app", master, {})
    assert os.environ.get("PYSPARK_PYTHON") == python
    assert os.environ.get("SPARK_LOCAL_IP") == ("127.0.0.1" if master.startswith(("local", "spark://127.")) else None)
    assert os.environ["ODRADEK_SPARK_APPLICATION"] == "app"


def test_every_python_process_has_the_application_name(spark: SparkSession) -> None:
    def names(_: object) -> list[str]:
        return [os.environ["ODRADEK_SPARK_APPLICATION"]]

    assert spark.sparkContext.parallelize([0], 1).flatMap(names).collect() == ["tests"]
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sql("select current_timezone()").first()[0] == "UTC"


SUBMITTED = """
from odradek.spark.session import local_session
session = local_session("ours")
print(session.sparkContext.master, session.conf.get("spark.sql.session.timeZone"), session.sparkContext.appName)
session.stop()
"""


@pytest.mark.spark
def test_settings_of_spark_submit_win_over_defaults(tmp_path: Path) -> None:
    import pyspark

    script = tmp_path / "app.py"
    script.write_text(SUBMITTED)
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    command = [submit, "--master", "local[1]", "--conf", "spark.sql.session.timeZone=CET", script]
    mine = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_GATEWAY")}
    told = subprocess.run(
        command, capture_output=True, text=True, check=True, env=mine | {"PYSPARK_PYTHON": sys.executable}
    )
    assert told.stdout.splitlines()[-1] == "local[1] CET ours"
