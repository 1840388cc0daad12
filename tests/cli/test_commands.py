"""The command line against an embedded broker."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from odradek.cli.main import main
from odradek.testing import Embedded
from odradek.web.application import application
from odradek.web.server import HttpServer
from support.broker_process import held_port
from support.command_line import odradek_command, succeed
from support.onlooker import await_whole


def test_a_topic_is_created_grown_and_deleted(odradek: Embedded) -> None:
    assert succeed(odradek, "topic", "create", "orders", "-p", "3", "-c", "retention.ms=60000") == "created orders\n"
    assert json.loads(succeed(odradek, "topic", "ls", "-o", "json")) == [
        {"topic": "orders", "partitions": 3, "replicas": 1}
    ]
    assert succeed(odradek, "topic", "add-partitions", "orders", "-p", "4") == "orders has 4 partitions\n"
    rows = json.loads(succeed(odradek, "topic", "describe", "orders", "-o", "json"))
    assert [row["partition"] for row in rows] == [0, 1, 2, 3]
    assert rows[0] | {"partition": 0} == {
        "partition": 0, "leader": 1, "replicas": [1], "in_sync": [1], "start": 0, "end": 0,
    }  # fmt: skip
    assert succeed(odradek, "topic", "delete", "orders", "--yes") == "deleted orders\n"
    assert json.loads(succeed(odradek, "topic", "ls", "-o", "json")) == []


def test_produced_lines_are_consumed_as_records(odradek: Embedded) -> None:
    succeed(odradek, "topic", "create", "lines", "-p", "1")
    succeed(odradek, "produce", "lines", "-K", ":", "-z", "zstd", "-H", "source=test", stdin="a:1\nb:2\nc\n")
    form = "%t/%p@%o %k=%v %h\\n"
    everything = succeed(odradek, "consume", "lines", "-o", "beginning", "-e", "-f", form)
    assert everything == "lines/0@0 a=1 source=test\nlines/0@1 b=2 source=test\nlines/0@2 =c source=test\n"
    assert succeed(odradek, "consume", "lines", "-o", "-1", "-e") == "c\n"
    assert succeed(odradek, "consume", "lines", "-o", "1", "-n", "1") == "2\n"
    assert succeed(odradek, "consume", "lines", "-o", "@2020-01-01", "-n", "1") == "1\n"
    assert succeed(odradek, "consume", "lines", "-o", "-1", "-e", "-f", "→ ü %v\\t\\n") == "→ ü c\t\n"


def test_consume_creates_a_group_only_with_the_group_option(odradek: Embedded) -> None:
    succeed(odradek, "produce", "queue", stdin="x\ny\n")
    succeed(odradek, "consume", "queue", "-o", "beginning", "-e")
    assert json.loads(succeed(odradek, "group", "ls", "-o", "json")) == []
    assert succeed(odradek, "consume", "queue", "-g", "workers", "-o", "beginning", "-n", "2") == "x\ny\n"
    [row] = json.loads(succeed(odradek, "group", "describe", "workers", "-o", "json"))
    assert (row["topic"], row["committed"], row["end"], row["lag"]) == ("queue", 2, 2, 0)
    assert "workers" in succeed(odradek, "group", "ls")
    assert succeed(odradek, "group", "delete", "workers", "--yes") == "deleted workers\n"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["topic", "describe", "nowhere"], 3, 'topic "nowhere" does not exist'),
        (["consume", "nowhere"], 3, 'topic "nowhere" does not exist'),
        (["group", "describe", "nobody"], 3, 'group "nobody" does not exist'),
        (["group", "lag", "nobody"], 3, 'group "nobody" does not exist'),
        (["topic", "create", "bad name"], 1, "'bad name' contains"),
        (["topic", "create", "x", "-c", "no.such.key=1"], 1, "no.such.key"),
        (["topic", "create", "x", "-c", "nonsense"], 2, "KEY=VALUE"),
        (
            ["produce", "bad name"],
            1,
            "invalid topic name: 'bad name' contains one or more characters other than",
        ),
        (["perf", "produce", "bad name"], 1, "other than ASCII alphanumerics, '.', '_' and '-'"),
        (["perf", "consume", "nowhere"], 3, 'topic "nowhere" does not exist'),
        (["consume", "x", "-o", "soon"], 2, "use beginning, end"),
        (["consume", "x", "-o", "5:2"], 2, "'5:2' ends before it begins"),
        (["consume", "x", "-g", "workers", "-p", "0"], 2, "cannot be combined: a group assigns"),
        (["consume", "x", "-g", "workers", "-o", "5"], 2, "--offset must be beginning or end"),
        (["produce", "x", "-H", "nonsense"], 2, "NAME=VALUE"),
        (["up", "--memory", "--data", "x"], 2, "cannot be combined"),
        (["up", "--memory", "-c", "retention.mss=1"], 1, "retention.mss"),
        (["up", "--memory", "-n", "3"], 2, "cannot be combined"),
        (["up", "--restart"], 2, "--restart needs -n"),
    ],
)
def test_errors_say_what_and_why(odradek: Embedded, arguments: list[str], code: int, said: str) -> None:
    result = odradek_command(odradek, *arguments)
    assert result.exit_code == code, result.output
    assert said in result.stderr
    assert "Error: " in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["topic", "describe", "order"],
        ["topic", "add-partitions", "order", "-p", "9"],
        ["config", "get", "topic", "order"],
        ["config", "set", "topic", "order", "retention.ms=1"],
        ["consume", "order"],
    ],
)
def test_a_similar_topic_is_suggested(odradek: Embedded, arguments: list[str]) -> None:
    succeed(odradek, "topic", "create", "orders")
    result = odradek_command(odradek, *arguments)
    assert result.exit_code == 3
    assert 'topic "order" does not exist. Did you mean "orders"? List topics with: ' in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["produce", "orders", "-p", "9"],
        ["produce", "orders", "-p", "9", "--acks", "1"],
        ["consume", "orders", "-p", "9"],
        ["topic", "trim", "orders", "--before", "end", "-p", "9"],
        ["group", "reset", "billing", "--to", "end", "-t", "orders:9"],
    ],
)
def test_a_missing_partition_is_refused_with_those_that_exist(odradek: Embedded, arguments: list[str]) -> None:
    succeed(odradek, "topic", "create", "orders", "-p", "3")
    result = odradek_command(odradek, *arguments, stdin="x\n")
    assert result.exit_code == 3
    assert result.stderr == 'Error: topic "orders" has no partition 9. It has 3 partitions: 0 to 2\n'


@pytest.mark.parametrize("wanted", ["2", "3"])
def test_partitions_cannot_be_removed(odradek: Embedded, wanted: str) -> None:
    succeed(odradek, "topic", "create", "orders", "-p", "3")
    result = odradek_command(odradek, "topic", "add-partitions", "orders", "-p", wanted)
    assert result.exit_code == 1
    assert 'topic "orders" already has 3 partitions. Partitions cannot be removed' in result.stderr


@pytest.mark.parametrize("url", ["http://a..b", "http://[::1", "http://:8083", "http://a:99999", "ftp://a"])
def test_an_invalid_address_of_connect_is_one_error(url: str) -> None:
    result = CliRunner().invoke(main, ["connect", "ls", "--url", url])
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {url!r} is not an address: ")


def test_the_client_listener_may_have_any_name() -> None:
    settings = {"listeners": "CLIENTS://127.0.0.1:0", "listener.security.protocol.map": "CLIENTS:PLAINTEXT"}
    with Embedded(config=settings) as broker:
        succeed(broker, "produce", "t", stdin="x\n")
        assert succeed(broker, "consume", "t", "-g", "readers", "-o", "beginning", "-n", "1") == "x\n"
        assert json.loads(succeed(broker, "cluster", "info", "-o", "json"))[0]["broker"] == 1


def test_an_unreachable_broker_is_reported_in_one_sentence() -> None:
    result = CliRunner().invoke(main, ["topic", "ls", "-b", "127.0.0.1:1"])
    assert result.exit_code == 4
    assert "no answer from 127.0.0.1:1" in result.output
    assert "odradek up" in result.output
    assert "-b HOST:PORT,HOST:PORT" in result.output
    assert "export ODRADEK_BOOTSTRAP=HOST:PORT,HOST:PORT" in result.output


def test_a_broker_that_accepts_but_does_not_answer_is_reported_as_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a broker of a cluster without a controller."""
    for patience in ("topic.REQUEST_TIMEOUT_S", "asking.PATIENCE_S", "quorum.ANSWER_S"):
        monkeypatch.setattr(f"odradek.cli.{patience}", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        result = CliRunner().invoke(main, ["topic", "ls", "-b", where])
    assert result.exit_code == 4
    assert f"{where} accepts connections, but did not answer in time" in result.output
    assert "odradek cluster health" in result.output


@pytest.mark.parametrize("command", [["cluster", "health"], ["topic", "ls"]])
def test_the_address_of_an_http_server_is_reported_as_such(monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    monkeypatch.setattr("odradek.cli.topic.REQUEST_TIMEOUT_S", 0.2)
    with HttpServer(application([])) as server:
        where = f"127.0.0.1:{server.port}"
        result = CliRunner().invoke(main, [*command, "-b", where])
    assert result.exit_code == 1
    assert f"Error: {where} speaks HTTP, not Kafka's protocol." in result.stderr


def test_help_imports_no_slow_module() -> None:
    """Checks only that no slow module is imported. The benchmark measures the time."""
    program = "import sys, odradek.cli.main; print('confluent_kafka' in sys.modules, 'asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_consume_from_an_offset_outside_the_log_fails(odradek: Embedded) -> None:
    succeed(odradek, "produce", "short", stdin="x\n")
    result = odradek_command(odradek, "consume", "short", "-o", "1000", "-e")
    assert result.exit_code == 3
    assert "short-0 has no offset 1000: its first offset is 0, its last 0" in result.output
    succeed(odradek, "topic", "trim", "short", "--before", "end", "-y")
    result = odradek_command(odradek, "consume", "short", "-o", "0", "-e")
    assert "short-0 has no offset 0: it is empty, its next offset is 1" in result.output


def test_topic_delete_reports_each_topic(odradek: Embedded) -> None:
    succeed(odradek, "topic", "create", "a", "b")
    result = odradek_command(odradek, "topic", "delete", "-y", "a", "nope", "b")
    assert result.exit_code == 3
    assert {"deleted a", "deleted b"} <= set(result.stdout.splitlines())
    assert result.stderr == 'Error: topic "nope" does not exist. List topics with: odradek topic ls\n'


def test_topic_create_creates_valid_topics_when_others_are_refused(odradek: Embedded) -> None:
    succeed(odradek, "topic", "create", "a")
    result = odradek_command(odradek, "topic", "create", "x", "a", "bad name", "y", "x")
    assert result.exit_code == 1
    assert sorted(result.stdout.splitlines()) == ["created x", "created y"]
    invalid, exists = sorted(result.stderr.splitlines())
    assert invalid.startswith("Error: bad name: ")
    assert exists == 'Error: topic "a" already exists. Skip topics that exist with --if-not-exists'
    again = succeed(odradek, "topic", "create", "--if-not-exists", "x", "z")
    assert sorted(again.splitlines()) == ["created z", "x exists already"]


def test_add_partitions_says_that_a_topic_does_not_exist_or_has_as_many(odradek: Embedded) -> None:
    succeed(odradek, "topic", "create", "a", "-p", "2")
    missing = odradek_command(odradek, "topic", "add-partitions", "nope", "-p", "3")
    assert (missing.exit_code, missing.stderr) == (
        3,
        'Error: topic "nope" does not exist. List topics with: odradek topic ls\n',
    )
    elsewhere = odradek_command(odradek, "topic", "describe", "nope", "-b", odradek.bootstrap_servers)
    assert elsewhere.stderr.endswith(f"odradek topic ls -b {odradek.bootstrap_servers}\n")
    enough = odradek_command(odradek, "topic", "add-partitions", "a", "-p", "2")
    assert enough.stderr.startswith('Error: topic "a" already has 2 partitions. Partitions cannot be removed')


def test_a_misspelt_command_gets_the_nearest_name() -> None:
    assert "No such command 'topc'. Did you mean 'topic'?" in CliRunner().invoke(main, ["topc", "ls"]).stderr
    assert "No such command 'frobnicate'." in CliRunner().invoke(main, ["frobnicate"]).stderr


def test_help_of_a_group_shows_the_whole_first_sentence_of_each_command() -> None:
    for group in ("topic", "cluster", "group", "txn", "streams", "connect"):
        shown = CliRunner().invoke(main, [group, "--help"]).stdout
        assert "..." not in shown.partition("Commands:")[2], shown


def test_a_data_directory_that_cannot_be_created_is_named_with_the_reason() -> None:
    refused = CliRunner().invoke(main, ["up", "--data", "/proc/nowhere", "--port", "0"])
    assert refused.stderr == "Error: cannot use /proc/nowhere: No such file or directory\n"


def test_a_name_given_twice_is_deleted_once(odradek: Embedded) -> None:
    succeed(odradek, "produce", "a", stdin="x\n")
    succeed(odradek, "consume", "a", "-g", "readers", "-o", "beginning", "-n", "1")
    assert succeed(odradek, "group", "delete", "-y", "readers", "readers") == "deleted readers\n"
    assert succeed(odradek, "topic", "delete", "-y", "a", "a") == "deleted a\n"


def test_topic_delete_fails_on_an_unknown_topic_before_asking(odradek: Embedded) -> None:
    succeed(odradek, "topic", "create", "a")
    result = odradek_command(odradek, "topic", "delete", "a", "nope")
    assert result.exit_code == 3
    assert result.stderr == 'Error: topic "nope" does not exist. List topics with: odradek topic ls\n'


@pytest.mark.parametrize("group", [[], ["-g", "readers"]])
def test_consume_ends_when_its_topic_is_deleted(odradek: Embedded, group: list[str]) -> None:
    succeed(odradek, "produce", "doomed", stdin="x\n")
    command = ["odradek.cli", "consume", "-b", odradek.bootstrap_servers, "doomed", "-o", "beginning", *group]
    with subprocess.Popen(
        [sys.executable, "-m", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout.readline() == "x\n"
        succeed(odradek, "topic", "delete", "-y", "doomed")
        said = reader.communicate(timeout=60)[1]
    assert reader.returncode == 3
    assert 'topic "doomed" does not exist' in said


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_consume_commits_what_it_printed_and_leaves_its_group(
    odradek: Embedded, stop: signal.Signals
) -> None:
    topic = f"stopped-{stop.name.lower()}"
    succeed(odradek, "produce", topic, stdin="x\n")
    command = ["odradek.cli", "consume", "-b", odradek.bootstrap_servers, topic, "-o", "beginning", "-g", topic]
    with subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout.readline() == "x\n"
        reader.send_signal(stop)
        reader.wait(60)
    assert reader.returncode == 0
    (row,) = json.loads(succeed(odradek, "group", "describe", topic, "-o", "json"))
    assert (row["committed"], row["owner"]) == (1, None)


def test_consume_reports_once_that_the_broker_is_gone_and_once_that_it_is_back(tmp_path: Path) -> None:
    with held_port() as port, Embedded(data=tmp_path, port=port) as broker:
        succeed(broker, "produce", "t", stdin="x\n")
        where = broker.bootstrap_servers
        command = ["odradek.cli", "consume", "-b", where, "t", "-o", "beginning", "-n", "2"]
        with subprocess.Popen(
            [sys.executable, "-m", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as reader:
            assert reader.stdout.readline() == "x\n"
            broker.kill()
            gone = f"Warning: {where} does not answer. Retrying; press Ctrl-C to stop\n"
            assert reader.stderr.readline() == gone
            broker.start()
            assert reader.stderr.readline() == f"{where} is back: consuming continues\n"
            succeed(broker, "produce", "t", stdin="y\n")
            assert reader.communicate(timeout=60) == ("y\n", "")


def test_consume_reports_that_other_brokers_lead_instead_of_a_dead_one() -> None:
    # Sessions outlast the pause of the controller. Otherwise it could fence live brokers, too.
    with Embedded(brokers=3, controllers=1, config={"broker.session.timeout.ms": 60_000}) as cluster:
        succeed(cluster, "topic", "create", "t", "-r", "3")
        await_whole(cluster, "t")
        succeed(cluster, "produce", "t", stdin="x\n")
        (row,) = json.loads(succeed(cluster, "topic", "describe", "t", "-o", "json"))
        command = ["odradek.cli", "consume", "-b", cluster.bootstrap_servers, "t", "-o", "beginning"]
        with subprocess.Popen(
            [sys.executable, "-m", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as reader:
            assert reader.stdout.readline() == "x\n"
            # The paused controller elects no other leader before `consume` reports the missing one.
            cluster.nodes[4].pause()
            cluster.nodes[row["leader"]].kill()
            missed = reader.stderr.readline()
            cluster.nodes[4].resume()
            followed = reader.stderr.readline()
            reader.terminate()
        assert "does not answer, and it leads t-0" in missed
        assert followed.startswith("other brokers lead instead of broker ")


def test_produce_fails_at_once_when_the_topic_cannot_be_auto_created() -> None:
    with Embedded(config={"auto.create.topics.enable": False}) as broker:
        succeed(broker, "topic", "create", "somewhere")
        result = odradek_command(broker, "produce", "nowhere", stdin="x\n")
    assert result.exit_code == 3
    assert 'topic "nowhere" does not exist. Did you mean "somewhere"? ' in result.output
    assert "odradek topic create nowhere" in result.output


@pytest.mark.parametrize("nodes", [[], ["-n", "3"]])
def test_up_on_a_taken_port_fails_and_writes_nothing(odradek: Embedded, tmp_path: Path, nodes: list[str]) -> None:
    result = odradek_command(odradek, "up", *nodes, "--data", str(tmp_path / "data"), "--port", str(odradek.port))
    assert result.exit_code == 1
    assert f"cannot listen on 127.0.0.1:{odradek.port}" in result.output
    assert "with --port" in result.output
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("nodes", [[], ["-n", "3"]])
def test_a_taken_port_of_the_console_is_found_before_anything_is_started(
    odradek: Embedded, tmp_path: Path, nodes: list[str]
) -> None:
    ports = ["--port", "0", "--console-port", str(odradek.port), "--console"]
    result = odradek_command(odradek, "up", *nodes, "--data", str(tmp_path / "data"), *ports)
    assert result.exit_code == 1
    assert f"cannot listen on 127.0.0.1:{odradek.port}" in result.output
    assert "with --console-port" in result.output
    assert not (tmp_path / "data").exists()


def test_a_taken_port_for_http_names_the_config(odradek: Embedded) -> None:
    taken = f"http.listener=127.0.0.1:{odradek.port}"
    result = odradek_command(odradek, "up", "--memory", "--port", "0", "--no-console", "-c", taken)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: cannot listen on 127.0.0.1:{odradek.port}: Address already in use. ")
    assert "with http.listener" in result.stderr


def test_a_console_that_cannot_start_ends_with_one_error(odradek: Embedded) -> None:
    """As the process that `odradek up` starts, whose stdin is a pipe."""
    command = [sys.executable, "-m", "odradek.cli", "console", "-b", odradek.bootstrap_servers, "--until-stdin-ends"]
    with subprocess.Popen(
        [*command, "--port", str(odradek.port)], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as console:
        assert console.stderr is not None
        said = console.stderr.read()
    assert console.returncode == 1
    assert said == (
        f"Error: cannot listen on 127.0.0.1:{odradek.port}: Address already in use. "
        "Choose another port with --port; 0 picks a free one\n"
    )


def test_a_cluster_and_a_single_node_cannot_share_a_directory(odradek: Embedded, tmp_path: Path) -> None:
    (tmp_path / "1.properties").touch()
    result = odradek_command(odradek, "up", "--data", str(tmp_path))
    assert result.exit_code == 2
    assert "holds a cluster" in result.output
    (tmp_path / "1.properties").rename(tmp_path / "meta.properties")
    result = odradek_command(odradek, "up", "-n", "3", "--data", str(tmp_path))
    assert result.exit_code == 1
    assert "a single node" in result.output


@pytest.mark.parametrize(
    ("arguments", "said"), [(["--seed", "2", "--trace"], "seed 2: ok"), (["--seeds", "0..2"], ", 0 failed")]
)
def test_sim_prints_the_outcome(arguments: list[str], said: str) -> None:
    """In its own process, because the simulation silences logging."""
    command = [sys.executable, "-m", "odradek.cli", "sim", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


def test_the_default_port_is_9092() -> None:
    """Needs no broker: the error message has the address."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.9", 9092))  # bound but not listening: connections are refused
        told = CliRunner().invoke(main, ["topic", "ls", "-b", "127.0.0.9"])
    assert told.exit_code == 4
    assert "no answer from 127.0.0.9:9092 (" in told.output


@pytest.mark.parametrize("command", [["topic", "ls"], ["cluster", "info"], ["doctor"], ["streams", "status"]])
@pytest.mark.parametrize("bootstrap", ["127.0.0.1:x", "127.0.0.1:99999", ",", "[::1"])
def test_an_invalid_address_is_refused(command: list[str], bootstrap: str) -> None:
    told = CliRunner().invoke(main, [*command, "-b", bootstrap])
    assert told.exit_code == 2
    assert "such as 127.0.0.1:9092" in told.output


@pytest.mark.parametrize("command", [["topic", "ls"], ["streams", "status"]])
@pytest.mark.parametrize("protocol", ["SSL", "sasl_plaintext", "SASL_SSL"])
def test_an_unsupported_security_protocol_is_refused_by_name(command: list[str], protocol: str) -> None:
    told = CliRunner().invoke(main, [*command, "-b", f"{protocol}://127.0.0.1:1"], terminal_width=200)
    assert told.exit_code == 2
    assert f"{protocol.upper()} is not supported: the command line speaks only PLAINTEXT so far" in told.output


def test_plaintext_may_be_written_in_any_case(odradek: Embedded) -> None:
    told = CliRunner().invoke(main, ["cluster", "info", "-b", f"plaintext://{odradek.bootstrap_servers}"])
    assert told.exit_code == 0, told.output


@pytest.mark.parametrize(
    ("command", "variable"),
    [
        (["topic", "ls"], "KAFKA_BOOTSTRAP_SERVERS"),
        (["topic", "ls"], "ODRADEK_BOOTSTRAP_SERVERS"),
        (["doctor"], "KAFKA_BOOTSTRAP_SERVERS"),
        (["streams", "status"], "ODRADEK_BOOTSTRAP_SERVERS"),
        (["streams", "status"], "ODRADEK_STREAMS_BOOTSTRAP"),
    ],
)
def test_an_unsupported_variable_is_refused_and_the_right_one_named(command: list[str], variable: str) -> None:
    """Only commands that read: without the check they would reach any broker on port 9092."""
    told = CliRunner().invoke(main, command, env={"ODRADEK_BOOTSTRAP": None, variable: "kafka.example:9092"})
    assert told.exit_code == 2
    assert f"{variable} is set, but odradek does not read it: " in told.stderr
    assert "set ODRADEK_BOOTSTRAP, or use -b HOST:PORT" in told.stderr


def test_an_unsupported_variable_is_ignored_when_the_cluster_is_named(odradek: Embedded) -> None:
    other = {"KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    ours = other | {"ODRADEK_BOOTSTRAP": odradek.bootstrap_servers}
    by_option = CliRunner().invoke(main, ["topic", "ls", "-b", odradek.bootstrap_servers], env=other)
    by_variable = CliRunner().invoke(main, ["topic", "ls"], env=ours)
    assert (by_option.exit_code, by_variable.exit_code) == (0, 0), by_option.output + by_variable.output


def test_streams_commands_ignore_kafkas_variable(tmp_path: Path) -> None:
    """The code of an application may read it."""
    place = ["--state-dir", str(tmp_path)]
    told = CliRunner().invoke(main, ["streams", "status", *place], env={"KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"})
    assert told.exit_code == 0, told.output


def test_empty_parts_of_the_address_list_are_ignored(odradek: Embedded) -> None:
    told = CliRunner().invoke(main, ["cluster", "info", "-b", f",{odradek.bootstrap_servers}, "])
    assert told.exit_code == 0, told.output


def test_a_too_large_record_is_refused_with_the_limit_and_how_to_raise_it(odradek: Embedded) -> None:
    succeed(odradek, "topic", "create", "small", "-c", "max.message.bytes=1000")
    refused = odradek_command(odradek, "produce", "small", stdin="x" * 1500 + "\n")
    assert refused.exit_code == 1
    assert refused.stderr == (
        'Error: the record has 1500 bytes; topic "small" takes 1000 (max.message.bytes).\n'
        "Raise it with: odradek config set topic small max.message.bytes=2048\n"
    )
    succeed(odradek, "config", "set", "topic", "small", "max.message.bytes=2048")
    succeed(odradek, "produce", "small", stdin="x" * 1500 + "\n")
    refused = odradek_command(odradek, "produce", "small", "-X", "message.max.bytes=1000", stdin="x" * 1500 + "\n")
    assert refused.stderr == (
        "Error: the record has 1500 bytes; this command sends at most 1000 (message.max.bytes).\n"
        "Raise it with: -X message.max.bytes=2048\n"
    )


def test_a_too_large_batch_is_refused_with_the_limit(odradek: Embedded) -> None:
    succeed(odradek, "topic", "create", "small", "-p", "1", "-c", "max.message.bytes=500")
    refused = odradek_command(odradek, "produce", "small", "-X", "linger.ms=1000", stdin=("x" * 300 + "\n") * 3)
    assert 'Error: a batch of records has more than the 500 bytes that topic "small" takes' in refused.stderr
