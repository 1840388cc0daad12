"""The wheel in an environment that does not have the repository: what a user gets from `pip install`.

Other packages come from the environment of the tests. Odradek itself comes from the wheel alone: Python searches the
path that a `.pth` file names, and does not read the `.pth` files there, such as that of an editable install.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# The demo takes 65 seconds on an idle machine, and several minutes on a busy one.
TIMEOUT_S = 500


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    dist = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(dist), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, timeout=TIMEOUT_S)
    (built,) = dist.glob("*.whl")
    return built


class Installed:
    """An environment with the wheel, and a directory that is not the repository."""

    def __init__(self, wheel: Path, place: Path) -> None:
        self.place = place / "work"
        self.place.mkdir()
        home = place / "venv"
        venv.create(home, with_pip=False, symlinks=True)
        self.bin = home / "bin"
        site = home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
        (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
        pip = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "--quiet"]
        subprocess.run([*pip, "install", "--no-deps", str(wheel)], check=True, timeout=TIMEOUT_S)

        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYTEST"))}
        self._environment = environment | {"PATH": f"{self.bin}:{os.environ['PATH']}"}

    def start(self, program: str, *arguments: str) -> subprocess.Popen[str]:
        """Starts a program of the environment, outside the repository. Its errors are part of its output."""
        return subprocess.Popen(
            [str(self.bin / program), *arguments],
            cwd=self.place,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def succeed(self, program: str, *arguments: str) -> str:
        process = self.start(program, *arguments)
        try:
            said, _ = process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 0, said
        return said


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(wheel, tmp_path_factory.mktemp("installed"))


def test_the_wheel_has_the_packages_and_their_files(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in ("odradek/py.typed", "odradek/cli/main.py", "pyspark_odradek/__init__.py"):
        assert wanted in names
    sources = [path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    missing = [str(path.relative_to(ROOT / "src")) for path in sources]
    assert [name for name in missing if name not in names] == []
    assert not [name for name in names if name.startswith(("tests/", "bench/", "docs/"))]


def test_description_has_no_links_that_work_only_in_the_repository(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (metadata,) = [archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA")]
    _, _, description = metadata.partition("\n\n")
    assert "Description-Content-Type: text/markdown" in metadata
    assert "pip install odradek" in description
    assert re.findall(r"(?:\]\(|(?:src|srcset|href)=\")(?!https?:)[^)\"]*", description) == []


def test_everything_is_imported_from_the_wheel(installed: Installed) -> None:
    told = installed.succeed("python", "-c", "import odradek, pyspark_odradek; print(odradek.__file__)")
    assert str(ROOT) not in told


def test_a_broker_of_the_wheel_stores_and_returns_records(installed: Installed) -> None:
    script = """
import subprocess, sys
up = subprocess.Popen([sys.argv[1], "up", "--no-console", "--memory", "--port", "0"], stdout=subprocess.PIPE, text=True)
try:
    address = up.stdout.readline().split(" on ")[1].split(",")[0]
    run = lambda *words, **more: subprocess.run([sys.argv[1], *words, "-b", address], check=True, text=True, **more)
    run("topic", "create", "greetings")
    run("produce", "greetings", input="hello\\n")
    print(run("consume", "greetings", "-o", "beginning", "-e", capture_output=True).stdout)
finally:
    up.terminate()
    up.wait()
"""
    assert "hello" in installed.succeed("python", "-c", script, str(installed.bin / "odradek"))


def test_the_pytest_plug_in_of_the_wheel_brings_its_fixtures(installed: Installed) -> None:
    (installed.place / "test_mine.py").write_text(
        "from odradek.client import Producer\n\n\n"
        "def test_a_broker_in_a_test(odradek):\n"
        "    with Producer(odradek.bootstrap_servers) as producer:\n"
        "        producer.send('orders', 'hello')\n"
    )
    assert "1 passed" in installed.succeed("python", "-m", "pytest", "-q", "test_mine.py")


def test_the_command_line_of_the_wheel_describes_itself(installed: Installed) -> None:
    assert "demo" in installed.succeed("odradek", "--help")
    assert "trucking" in installed.succeed("odradek", "demo", "--help")


class Demo:
    """`odradek demo trucking` of the wheel: it ends by itself and checks its results."""

    def __init__(self, installed: Installed) -> None:
        command = ["odradek", "demo", "trucking", "--duration", "30", "--port", "0", "--page-port", "0"]
        self._process = installed.start(*command)

    def text(self) -> str:
        said, _ = self._process.communicate(timeout=TIMEOUT_S)
        return said

    def close(self) -> None:
        self._process.terminate()  # its parts end with it
        self._process.communicate()


@pytest.fixture(scope="module")
def demo(installed: Installed) -> Iterator[Demo]:
    """Runs beside the other tests on Spark: most of its time it waits."""
    running = Demo(installed)
    yield running
    running.close()


@pytest.mark.spark
@pytest.mark.usefixtures("demo")
def test_a_spark_session_finds_the_source_of_the_wheel(installed: Installed) -> None:
    script = """
from pyspark.sql import SparkSession
from odradek.client import Producer
from odradek.testing import Embedded

with Embedded() as broker:
    with Producer(broker.bootstrap_servers) as producer:
        producer.send("orders", b"hello")
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    rows = spark.read.format("odradek").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    print(rows.option("subscribe", "orders").load().selectExpr("cast(value as string)").collect())
    spark.stop()
"""
    assert "hello" in installed.succeed("python", "-c", script)


@pytest.mark.spark
def test_the_demo_of_the_wheel_goes_live_and_its_results_are_right(demo: Demo) -> None:
    text = demo.text()
    assert "  live    http://" in text, text
    assert "  check   right: " in text, text
