"""What Spark hears of a micro-batch that failed in Python."""

from __future__ import annotations

import re

import pytest

from odradek.streams.compile.failures import for_spark

# how Spark finds out that it stopped the query itself; its expression needs stack for each letter in between
BEGINNING = "py4j.protocol.Py4JJavaError: An error occurred while calling"
STOPPED = re.compile(BEGINNING + r"((.|\r\n|\r|\n)*)(java.lang.InterruptedException|java.io.InterruptedIOException)")
LONG = "\n\tat org.apache.spark.Something" * 10_000


@pytest.mark.parametrize("interruption", ["java.lang.InterruptedException", "java.io.InterruptedIOException"])
def test_what_was_stopped_says_so_briefly(interruption: str):
    told = str(
        for_spark(RuntimeError(f"An error occurred while calling o1.save.\n: {LONG}\nCaused by: {interruption}"))
    )
    assert STOPPED.search(told)
    assert len(told) < 200


def test_what_failed_says_why_and_is_not_taken_for_stopped():
    told = str(for_spark(RuntimeError(f"An error occurred while calling o1.save.\n: SparkException: {LONG}")))
    assert "SparkException" in told
    assert BEGINNING not in told
