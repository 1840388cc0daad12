"""`odradek node` and `odradek cluster id`: formats directories as an operator does."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from odradek.cli.main import main
from odradek.metadata.bootstrap import VOTERS_CHECKPOINT, decode_voters
from odradek.node.format import decode_identity

PROPERTIES = """
process.roles=broker,controller
node.id={node_id}
listeners=PLAINTEXT://127.0.0.1:909{node_id},CONTROLLER://127.0.0.1:919{node_id}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:9191,127.0.0.1:9192,127.0.0.1:9193
log.dirs={data}
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for node_id in (1, 2, 3):
        text = PROPERTIES.format(node_id=node_id, data=tmp_path / str(node_id))
        (tmp_path / f"{node_id}.properties").write_text(text)
    return [str(tmp_path / f"{node_id}.properties") for node_id in (1, 2, 3)]


def new_id() -> str:
    return run("cluster", "id").stdout.strip()


def test_ids_are_random_and_do_not_begin_with_a_dash() -> None:
    ids = [new_id() for _ in range(20)]
    assert len(set(ids)) == 20
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", one) for one in ids)


def test_three_nodes_are_formatted_with_the_same_initial_controllers(files: list[str], tmp_path: Path) -> None:
    cluster_id, directories = new_id(), [new_id() for _ in range(3)]
    controllers = ",".join(f"{n}@127.0.0.1:919{n}:{directory}" for n, directory in enumerate(directories, 1))
    for file in files:
        done = run("node", "format", "--config", file, "--cluster-id", cluster_id, "--initial-controllers", controllers)
        assert done.exit_code == 0, done.output
        assert f"of cluster {cluster_id}, directory " in done.output
    identities = [decode_identity((tmp_path / str(n) / "meta.properties").read_bytes()) for n in (1, 2, 3)]
    assert [identity.node_id for identity in identities] == [1, 2, 3]
    voters = [decode_voters((tmp_path / str(n) / VOTERS_CHECKPOINT).read_bytes()) for n in (1, 2, 3)]
    assert voters[0] == voters[1] == voters[2]
    assert voters[0].keys == tuple((identity.node_id, identity.directory_id) for identity in identities)


def test_formatting_again_changes_nothing(files: list[str], tmp_path: Path) -> None:
    arguments = ["node", "format", "--config", files[0], "--cluster-id"]
    assert run(*arguments, "one", "--standalone").exit_code == 0
    again = run(*arguments, "two", "--standalone")
    assert again.exit_code == 1
    assert "formatted already, for node 1 of one" in again.output
    assert run(*arguments, "two", "--standalone", "--ignore-formatted").exit_code == 0
    assert b"cluster.id=one" in (tmp_path / "1" / "meta.properties").read_bytes()


def test_formatting_a_controller_needs_the_initial_voters(files: list[str], tmp_path: Path) -> None:
    arguments = ["node", "format", "--cluster-id", "c", "--config"]
    assert "choose one of" in run(*arguments, files[0]).output
    assert "choose one of" in run(*arguments, files[0], "--standalone", "--no-initial-controllers").output
    assert run(*arguments, files[0], "--no-initial-controllers").exit_code == 0
    broker = (
        Path(files[1]).read_text().replace("broker,controller", "broker").replace(",CONTROLLER://127.0.0.1:9192", "")
    )
    Path(files[1]).write_text(broker)
    assert "is for a controller" in run(*arguments, files[1], "--standalone").output
    assert run(*arguments, files[1]).exit_code == 0
    for n in (1, 2):
        assert not (tmp_path / str(n) / VOTERS_CHECKPOINT).exists()


def test_every_invalid_key_of_a_file_is_reported(files: list[str]) -> None:
    with Path(files[0]).open("a") as file:
        file.write("zookeeper.connect=x\nnum.partitions=many\n")
    for arguments in (["start"], ["format", "--cluster-id", "c", "--standalone"]):
        done = run("node", *arguments, "--config", files[0])
        assert done.exit_code == 1
        assert f"{files[0]}: Unknown broker config name: zookeeper.connect" in done.output
        assert f"{files[0]}: Invalid value many for configuration num.partitions" in done.output


ALONE = "listeners=PLAINTEXT://127.0.0.1:0\nlog.dirs={data}\n"


def started(tmp_path: Path, *options: str) -> subprocess.Popen[str]:
    file = tmp_path / "alone.properties"
    file.write_text(ALONE.format(data=tmp_path / "data"))
    command = [sys.executable, "-m", "odradek.cli", "node", "start", "--config", str(file), *options]
    node = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert node.stdout is not None
    assert re.match(r"Odradek is ready on 127\.0\.0\.1:\d+, records in ", node.stdout.readline())
    return node


def test_a_properties_file_starts_a_single_node(tmp_path: Path) -> None:
    with started(tmp_path) as node:
        node.send_signal(signal.SIGTERM)
        assert node.communicate(timeout=20)[0].endswith("stopped cleanly\n")
    assert (tmp_path / "data" / "meta.properties").exists()


def test_a_node_stops_when_its_stdin_is_closed(tmp_path: Path) -> None:
    with started(tmp_path, "--until-stdin-ends") as node:
        assert node.stdin is not None
        node.stdin.close()
        assert node.wait(timeout=20) == 0
