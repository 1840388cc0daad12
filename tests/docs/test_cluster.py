"""The page about clusters: its files are valid and its commands work."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from docs.pages import DOCS, blocks
from odradek.base.ids import uuid_text
from odradek.cli.main import main
from odradek.metadata.bootstrap import VOTERS_CHECKPOINT, decode_voters
from odradek.node.config import NodeConfig
from odradek.node.format import decode_identity

PAGE = DOCS / "cluster.md"
IDS = {"CLUSTER": "kPv1zNbDQ6y", "ONE": "JEXY6aqzQY-32P5TStzaFg", "TWO": "MvDxzVmcRsaTz33bUuRU6A"}
IDS["THREE"] = "07R5amHmR32VDA6jHkGbTA"


def block(kind: str, containing: str) -> str:
    (found,) = [each.text for each in blocks(PAGE, kind) if containing in each.text]
    return found


def bash(script: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-euc", script],
        cwd=cwd,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_properties_file_of_the_page_is_a_valid_configuration() -> None:
    config = NodeConfig.from_properties(block("properties", "node.id"))
    assert [str(listener.reached_at) for listener in config.listeners] == ["one.example:9092", "one.example:9093"]


@pytest.mark.parametrize(("node_id", "host"), [(1, "one"), (2, "two"), (3, "three")])
def test_format_command_of_the_page_works(tmp_path: Path, node_id: int, host: str) -> None:
    text = block("properties", "node.id").replace("/var/lib/odradek", str(tmp_path / "data"))
    text = text.replace("node.id=1", f"node.id={node_id}")
    text = re.sub(r"advertised.listeners=.*", lambda line: line[0].replace("one.example", f"{host}.example"), text)
    (tmp_path / "node.properties").write_text(text)
    commands = [line for line in block("sh", "--initial-controllers").splitlines() if "node start" not in line]
    done = bash("\n".join(commands), tmp_path, **IDS)
    assert done.returncode == 0, done.stderr
    identity = decode_identity((tmp_path / "data" / "meta.properties").read_bytes())
    assert identity.node_id == node_id
    assert uuid_text(identity.directory_id) == IDS[host.upper()]


def test_services_start_nodes_with_options_that_exist(tmp_path: Path) -> None:
    lines = re.findall(r"ExecStart=\S+odradek (.*)", block("ini", "ExecStart"))
    lines += re.findall(r"command: (node start.*)", block("yaml", "services:"))
    lines += [re.sub(r"[,\]\[]", "", line) for line in re.findall(r"args: (.*)", block("yaml", "StatefulSet"))]
    assert len(lines) == 5
    for line in lines:
        done = CliRunner().invoke(main, line.split())
        assert done.exit_code == 2
        assert "does not exist" in done.output, line


class Pod:
    """The files of the ConfigMap, in a directory as in a pod."""

    def __init__(self, directory: Path, form: str) -> None:
        self._directory = directory
        page = block("yaml", "prepare.sh")
        entries = dict(re.findall(r"^  ([\w.]+): (?!\|)(.*)$", page, flags=re.MULTILINE))
        entries |= {
            name: re.sub(r"^    ", "", text, flags=re.MULTILINE)
            for name, text in re.findall(r"^  ([\w.]+): \|\n((?:    .*\n)+)", page, flags=re.MULTILINE)
        }
        entries["form"] = form
        entries["cluster"] = IDS["CLUSTER"]
        for name in ("ONE", "TWO", "THREE"):
            entries["controllers"] = entries["controllers"].replace("REPLACE", IDS[name], 1)
        for place in ("etc", "run"):
            (directory / place).mkdir()
        for name in ("form", "cluster", "controllers", "node.properties", "prepare.sh"):
            (directory / "etc" / name).write_text(self._here(entries[name]))

    def _here(self, text: str) -> str:
        for theirs, ours in (("/etc/odradek", "etc"), ("/run/odradek", "run"), ("/var/lib/odradek", "lib")):
            text = text.replace(theirs, str(self._directory / ours))
        return text

    def prepare(self, hostname: str) -> None:
        done = bash(f"sh {self._directory}/etc/prepare.sh", self._directory, HOSTNAME=hostname)
        assert done.returncode == 0, done.stderr

    @property
    def data(self) -> Path:
        return self._directory / "lib" / "data"

    @property
    def config(self) -> NodeConfig:
        return NodeConfig.from_properties((self._directory / "run" / "node.properties").read_text())


def test_prepare_script_formats_the_volume_of_a_pod_once(tmp_path: Path) -> None:
    pod = Pod(tmp_path, "yes")
    pod.prepare("odradek-1")
    assert pod.config.node_id == 2
    assert str(pod.config.client_listener.reached_at) == "odradek-1.odradek:9092"
    voters = decode_voters((pod.data / VOTERS_CHECKPOINT).read_bytes())
    assert [voter.endpoints[0].host for voter in voters.voters] == [f"odradek-{n}.odradek" for n in range(3)]
    before = os.stat(pod.data / "meta.properties").st_mtime_ns
    pod.prepare("odradek-1")
    assert os.stat(pod.data / "meta.properties").st_mtime_ns == before


def test_prepare_script_does_not_format_a_lost_volume(tmp_path: Path) -> None:
    pod = Pod(tmp_path, "no")
    pod.prepare("odradek-1")
    assert pod.config.node_id == 2
    assert not pod.data.exists()


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Runs the first command of the page, on free ports."""
    (command,) = block("sh", "odradek up -n 3").splitlines()
    arguments = shlex.split(command, comments=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "odradek.cli", *arguments[1:], "--port", "0"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


def ready(terminal: subprocess.Popen[str]) -> tuple[list[str], str]:
    """The output until all nodes are ready, and their addresses."""
    assert terminal.stdout is not None
    lines = []
    for line in terminal.stdout:
        lines.append(line)
        if found := re.match(r"Odradek is ready on (\S+)\. ", line):
            return lines, found[1]
    raise AssertionError("".join(lines))


def pid_of(node_id: int, directory: Path) -> int:
    """The process id of a node, as `ps` would show it."""
    wanted = str(directory / "cluster" / f"{node_id}.properties")
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if wanted in entry.read_bytes().decode(errors="replace").split("\0"):
                return int(entry.parent.name)
    raise AssertionError(f"node {node_id} is not running")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
def test_terminal_session_of_the_page_works(terminal: subprocess.Popen[str], tmp_path: Path) -> None:
    lines, servers = ready(terminal)
    shown = block("text", "CONTROLLERS").splitlines()
    assert lines[0].split() == shown[0].split()
    assert [line.split()[0] for line in lines[1:4]] == [line.split()[0] for line in shown[1:]]
    assert [line.split()[3] for line in lines[1:4]] == [line.split()[3] for line in shown[1:]]
    session = block("sh", "odradek topic create orders") + block("sh", "odradek cluster reassign")
    # After the creation of a topic it takes a moment until all brokers know it and its followers are in the ISR. A
    # person is slower than that; the test must retry.
    for command in ("odradek topic describe orders", "odradek cluster health"):
        assert command in session
        session = session.replace(command, f"until {command}; do sleep 0.1; done")
    done = bash(session, tmp_path, ODRADEK_BOOTSTRAP=servers)
    assert done.returncode == 0, done.stdout + done.stderr
    os.kill(pid_of(2, tmp_path), signal.SIGKILL)
    assert terminal.stdout is not None
    # Nodes may still print their addresses.
    assert any(line == "node 2 was ended by SIGKILL\n" for line in terminal.stdout)
    start_again = re.fullmatch(r"Restart it with: (odradek node start .*)\n", terminal.stdout.readline())
    health = "until odradek cluster health | grep 'without 2'; do sleep 0.1; done"
    assert "not in sync" in bash(health, tmp_path, ODRADEK_BOOTSTRAP=servers).stdout
    assert start_again
    again = subprocess.Popen([sys.executable, "-m", "odradek.cli", *shlex.split(start_again[1])[1:]])
    try:
        whole = "until odradek cluster health; do sleep 0.1; done"
        bash(whole, tmp_path, ODRADEK_BOOTSTRAP=servers)
    finally:
        again.terminate()
        again.wait(60)
    terminal.send_signal(signal.SIGINT)
    assert terminal.wait(60) == 1
    assert (tmp_path / "cluster" / "1.properties").exists()


def test_embedded_cluster_snippet_of_the_page_runs() -> None:
    snippet = block("python", "brokers=3")
    done = subprocess.run([sys.executable, "-c", snippet], timeout=100, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
