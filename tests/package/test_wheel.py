"""The wheel in an environment that does not have the repository: what a user gets from `pip install`.

Other packages come from the environment of the tests. Odradek itself comes from the wheel alone: Python searches the
path that a `.pth` file names, and does not read the `.pth` files there, such as that of an editable install.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 110


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

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYTEST"))}
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self.place,
            env=environment | {"PATH": f"{self.bin}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def succeed(self, *command: str) -> str:
        done = self.run(*command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


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


def test_everything_is_imported_from_the_wheel(installed: Installed) -> None:
    told = installed.succeed("python", "-c", "import odradek, pyspark_odradek; print(odradek.__file__)")
    assert str(ROOT) not in told


def test_a_broker_of_the_wheel_stores_and_returns_records(installed: Installed) -> None:
    script = """
import subprocess, sys
up = subprocess.Popen([sys.argv[1], "up", "--memory", "--port", "0"], stdout=subprocess.PIPE, text=True)
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


@pytest.mark.spark
def test_the_spark_source_of_the_wheel_reads_a_topic(installed: Installed) -> None:
    script = """
from odradek.client import Producer
from odradek.spark.session import local_session
from odradek.testing import Embedded

with Embedded() as broker:
    with Producer(broker.bootstrap_servers) as producer:
        producer.send("orders", b"hello")
    spark = local_session("wheel")
    rows = spark.read.format("odradek").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    print(rows.option("subscribe", "orders").load().selectExpr("cast(value as string)").collect())
    spark.stop()
"""
    assert "hello" in installed.succeed("python", "-c", script)
