"""kcat from the Linux distribution, with an old librdkafka."""

from __future__ import annotations

import json
import shutil
import subprocess
import time

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from support.wiretap import Wiretap

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed (apt-get install kcat, as root)"),
]


def kcat(tap: Wiretap, *arguments: str, stdin: str = "") -> str:
    command = ["kcat", "-b", tap.bootstrap, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_produce_consume_and_seek(tap: Wiretap) -> None:
    lines = [f"k{number}:v{number}" for number in range(100)]
    kcat(tap, "-P", "-t", "kcat-a", "-K:", "-z", "lz4", stdin="\n".join(lines))
    assert kcat(tap, "-C", "-t", "kcat-a", "-o", "beginning", "-e", "-q", "-K:").split() == lines
    assert kcat(tap, "-C", "-t", "kcat-a", "-o", "90", "-e", "-q").split() == [
        f"v{number}" for number in range(90, 100)
    ]
    assert kcat(tap, "-C", "-t", "kcat-a", "-o", "-3", "-e", "-q").split() == ["v97", "v98", "v99"]


def test_compression_survives_an_old_librdkafka(tap: Wiretap) -> None:
    """Produce must be advertised from version 0, or librdkafka before 2.11.1 silently stops compressing."""
    line = "a" * 10_000
    kcat(tap, "-P", "-t", "kcat-z", "-z", "zstd", stdin="\n".join([line] * 50))
    assert kcat(tap, "-C", "-t", "kcat-z", "-o", "beginning", "-e", "-q").split() == [line] * 50


def test_metadata_and_offsets_by_time(tap: Wiretap) -> None:
    before = int(time.time() * 1000) - 1000
    kcat(tap, "-P", "-t", "kcat-m", stdin="x\ny\n")
    listed = json.loads(kcat(tap, "-L", "-J"))
    assert "kcat-m" in {topic["topic"] for topic in listed["topics"]}
    assert "offset 0" in kcat(tap, "-Q", "-t", f"kcat-m:0:{before}")
    assert kcat(tap, "-C", "-t", "kcat-m", "-o", f"s@{before}", "-e", "-q").split() == ["x", "y"]


def test_group_rebalance_commit_and_resume(tap: Wiretap) -> None:
    admin = AdminClient({"bootstrap.servers": tap.bootstrap})
    admin.create_topics([NewTopic("kcat-g", 2)])["kcat-g"].result(60)
    for partition in (0, 1):
        kcat(tap, "-P", "-t", "kcat-g", "-p", str(partition), stdin="".join(f"{partition}{n}\n" for n in range(10)))
    command = ["kcat", "-b", tap.bootstrap, "-G", "kcat-group", "-X", "auto.offset.reset=earliest", "-u"]
    first = subprocess.Popen([*command, "kcat-g"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert first.stdout is not None
    seen = [first.stdout.readline().strip() for _ in range(20)]
    second = subprocess.Popen([*command, "kcat-g"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    members = lambda: len(admin.describe_consumer_groups(["kcat-group"])["kcat-group"].result(60).members)  # noqa: E731
    deadline = time.monotonic() + 30
    while members() != 2:
        assert time.monotonic() < deadline
    for process in (first, second):
        process.terminate()
        process.communicate(timeout=30)
    assert sorted(seen) == sorted(f"{partition}{n}" for partition in (0, 1) for n in range(10))
    kcat(tap, "-P", "-t", "kcat-g", "-p", "1", stdin="late\n")
    third = subprocess.Popen([*command, "kcat-g"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert third.stdout is not None
    assert third.stdout.readline().strip() == "late"
    third.terminate()
    third.communicate(timeout=30)
