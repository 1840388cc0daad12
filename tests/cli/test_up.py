"""`odradek up -n`: a second start uses the ports and settings of the first."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from support.broker_process import held_ports


def started_and_stopped(data: Path, *arguments: str) -> list[str]:
    """The table of nodes that it prints."""
    command = [sys.executable, "-m", "odradek.cli", "up", "-n", "2", "--no-console", "--data", str(data), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as up:
        said = []
        while sum("is ready" in line for line in said) < 2:
            said.append(up.stdout.readline())
            assert said[-1], f"ended early: {said}"
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=60)
    assert up.returncode == 0
    return said[:3]


def test_the_next_start_keeps_ports_settings_and_edits(tmp_path: Path) -> None:
    data = tmp_path / "cluster"
    with held_ports(2) as port:
        first = started_and_stopped(data, "--port", str(port), "-c", "num.partitions=5")
        assert f"127.0.0.1:{port} " in first[1]
        edited = data / "2.properties"
        written = edited.read_text() + "# by hand\nbroker.rack=north\n"
        edited.write_text(written)
        assert started_and_stopped(data) == first
        assert edited.read_text() == written
        started_and_stopped(data, "-c", "num.partitions=7")
        assert edited.read_text() == written.replace("num.partitions=5", "num.partitions=7")


def test_a_cluster_prints_how_commands_find_it_without_its_first_node(tmp_path: Path) -> None:
    with held_ports(2) as port:
        command = [sys.executable, "-m", "odradek.cli", "up", "-n", "2", "--no-console", "--data", str(tmp_path)]
        with subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.PIPE, text=True) as up:
            next(line for line in up.stdout if line.startswith("Odradek is ready"))
            up.send_signal(signal.SIGINT)
            said = up.stdout.read()
    assert f"\n  export ODRADEK_BOOTSTRAP=127.0.0.1:{port},127.0.0.1:{port + 1}\n" in said
