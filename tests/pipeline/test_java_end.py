"""An error of the connection to Spark's Java process is explained if the process has ended."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
from pyspark import SparkContext

from odradek.pipeline.java_end import JavaEnded, java_end_told


@pytest.fixture
def process(monkeypatch):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
        yield process
        process.kill()


def lose() -> None:
    with java_end_told():
        raise ConnectionRefusedError("py4j")


def test_a_java_process_that_was_killed_is_named(process):
    process.kill()
    process.wait()
    with pytest.raises(JavaEnded, match=r"has ended \(signal SIGKILL\): .* Run the application again"):
        lose()


def test_other_errors_stay_as_they_are(process, monkeypatch):
    with pytest.raises(ConnectionRefusedError):
        lose()
    monkeypatch.setattr(SparkContext, "_gateway", None)
    with pytest.raises(ConnectionRefusedError):
        lose()
