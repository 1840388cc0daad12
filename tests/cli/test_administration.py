"""config, group reset, topic trim, log, perf, doctor, completion, and every form of output."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.adapters.disk import OsDisk
from odradek.base.ids import TopicId, TopicPartition
from odradek.client import ClientError, Consumer
from odradek.log.config import LogConfig
from odradek.log.directory import LogDirectory
from odradek.log.verification import NOT_REQUIRED
from odradek.protocol.batch import TRANSACTIONAL, encode_batch
from odradek.protocol.records import Record
from odradek.protocol.txn_marker import TxnMarker
from odradek.testing import Embedded
from support.command_line import odradek_command, succeed
from support.seeded_rng import SeededRng


@pytest.fixture
def orders(odradek: Embedded) -> Embedded:
    """A broker with ten records in the one partition of `orders`, of which group `billing` has read four."""
    succeed(odradek, "topic", "create", "orders", "-p", "1")
    succeed(odradek, "produce", "orders", stdin="".join(f"order {n}\n" for n in range(10)))
    succeed(odradek, "consume", "orders", "-g", "billing", "-o", "beginning", "-n", "4")
    return odradek


def rows(broker: Embedded, *arguments: str) -> list[dict]:
    return json.loads(succeed(broker, *arguments, "-o", "json"))


def test_configs_of_a_topic(odradek: Embedded) -> None:
    succeed(odradek, "topic", "create", "t", "-c", "retention.ms=1000")
    assert rows(odradek, "config", "get", "topic", "t") == [
        {"config": "retention.ms", "value": "1000", "from": "topic"}
    ]
    succeed(odradek, "config", "set", "topic", "t", "cleanup.policy+=compact", "retention.ms=2000")
    shown = {row["config"]: row["value"] for row in rows(odradek, "config", "get", "topic", "t")}
    assert shown == {"cleanup.policy": "delete,compact", "retention.ms": "2000"}
    succeed(odradek, "config", "set", "topic", "t", "cleanup.policy-=delete")
    succeed(odradek, "config", "unset", "topic", "t", "retention.ms")
    assert [row["config"] for row in rows(odradek, "config", "get", "topic", "t")] == ["cleanup.policy"]
    assert rows(odradek, "config", "get", "topic", "t", "segment.bytes")[0]["from"] == "default"
    assert len(rows(odradek, "config", "get", "topic", "t", "--all")) > 20


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("set", "topic", "t", "no.such=1"), 1, "no.such"),
        (("set", "topic", "t", "retention.ms=soon"), 1, "retention.ms"),
        (("set", "topic", "t", "retention.ms"), 2, "is not KEY=VALUE"),
        (("get", "topic", "nosuch"), 3, 'topic "nosuch" does not exist'),
        (("get", "topic", "t", "no.such"), 2, "a topic has no config 'no.such'"),
    ],
)
def test_invalid_configs_are_refused(odradek: Embedded, arguments: tuple[str, ...], code: int, said: str) -> None:
    succeed(odradek, "topic", "create", "t")
    refused = odradek_command(odradek, "config", *arguments)
    assert (refused.exit_code, said in refused.stderr) == (code, True), refused.output


def test_a_dry_run_changes_nothing_and_a_diff_shows_what_differs(odradek: Embedded) -> None:
    succeed(odradek, "topic", "create", "a", "b")
    assert "valid; nothing was changed" in succeed(
        odradek, "config", "set", "topic", "a", "retention.ms=1", "--dry-run"
    )
    assert rows(odradek, "config", "diff", "topic", "a", "b") == []
    succeed(odradek, "config", "set", "topic", "a", "retention.ms=1")
    assert rows(odradek, "config", "diff", "topic", "a", "b") == [
        {"config": "retention.ms", "a": "1", "b": "604800000"}
    ]


def test_defaults_of_all_brokers(odradek: Embedded) -> None:
    succeed(odradek, "config", "set", "broker", "all", "log.retention.ms=7000")
    [row] = rows(odradek, "config", "get", "broker", "1", "log.retention.ms")
    assert (row["value"], row["from"]) == ("7000", "all brokers")
    succeed(odradek, "config", "unset", "broker", "all", "log.retention.ms")
    nobody = odradek_command(odradek, "config", "get", "broker", "9")
    assert (nobody.exit_code, 'broker "9" does not exist. Use 1' in nobody.stderr) == (3, True)


def test_levels_of_loggers(odradek: Embedded) -> None:
    before = rows(odradek, "config", "get", "logger", "1")
    assert [row["config"] for row in before][-1] == "root"
    succeed(odradek, "config", "set", "logger", "1", "odradek.server.network=DEBUG", "root=ERROR")
    changed = rows(
        odradek, "config", "get", "logger", "1", "odradek.server.network", "odradek.server.network.connection"
    )
    assert [(row["value"], row["from"]) for row in changed] == [("DEBUG", "logger")] * 2
    assert {row["config"]: row["value"] for row in rows(odradek, "config", "get", "logger", "1")}["root"] == "ERROR"
    succeed(odradek, "config", "unset", "logger", "1", "odradek.server.network")
    assert len(rows(odradek, "config", "get", "logger", "1", "--all")) > 20
    refused = odradek_command(odradek, "config", "set", "logger", "1", "no.such=INFO")
    assert (refused.exit_code, "Logger no.such does not exist!" in refused.stderr) == (1, True)
    nobody = odradek_command(odradek, "config", "get", "logger", "9")
    assert (nobody.exit_code, 'broker "9" does not exist. Use 1\n' in nobody.stderr) == (3, True)


def test_client_metrics_subscriptions(odradek: Embedded) -> None:
    settings = ["metrics=org.apache.kafka.producer.", "interval.ms=10000", "match=client_id=app-.*"]
    assert rows(odradek, "config", "ls", "client-metrics") == []
    succeed(odradek, "config", "set", "client-metrics", "slow", *settings)
    assert rows(odradek, "config", "ls", "client-metrics") == [{"name": "slow"}]
    assert rows(odradek, "config", "get", "client-metrics", "slow") == [
        {"config": "interval.ms", "value": "10000", "from": "client-metrics"},
        {"config": "match", "value": "client_id=app-.*", "from": "client-metrics"},
        {"config": "metrics", "value": "org.apache.kafka.producer.", "from": "client-metrics"},
    ]
    refused = odradek_command(odradek, "config", "set", "client-metrics", "slow", "interval.ms=1")
    assert (refused.exit_code, "interval must be between" in refused.stderr) == (1, True)
    succeed(odradek, "config", "unset", "client-metrics", "slow", "metrics", "interval.ms", "match")
    assert rows(odradek, "config", "ls", "client-metrics") == []
    assert rows(odradek, "config", "ls", "broker") == [{"name": "1"}]


@pytest.mark.parametrize(
    ("to", "now"),
    [("beginning", 0), ("end", 10), ("7", 7), ("-2", 2), ("+3", 7), ("+100", 10), ("@-1h", 0), ("@-0s", 10)],
)
def test_group_reset_changes_the_committed_offset(orders: Embedded, to: str, now: int) -> None:
    [planned] = rows(orders, "group", "reset", "billing", "--to", to, "--dry-run")
    assert planned == {"topic": "orders", "partition": 0, "was": 4, "now": now}
    assert rows(orders, "group", "describe", "billing")[0]["committed"] == 4
    assert rows(orders, "group", "reset", "billing", "--to", to, "-t", "orders:0", "--yes") == [planned]
    [lag] = json.loads(odradek_command(orders, "group", "lag", "-o", "json").stdout)
    assert (lag["group"], lag["topic"], lag["partitions"], lag["lag"]) == ("billing", "orders", 1, 10 - now)


@pytest.mark.parametrize(
    ("to", "now", "said"),
    [
        ("99999999", 10, "orders-0: offset 99999999 is beyond the end of the log; using the end offset 10"),
        ("+7", 10, "orders-0: offset 11 is beyond the end"),
        ("2", 3, "orders-0: offset 2 is before the start of the log; using the start offset 3"),
        ("10", 10, ""),
    ],
)
def test_group_reset_outside_the_log_warns_and_uses_its_start_or_end(
    orders: Embedded, to: str, now: int, said: str
) -> None:
    succeed(orders, "topic", "trim", "orders", "--before", "3", "-y")
    done = odradek_command(orders, "group", "reset", "billing", "--to", to, "-o", "json", "--yes")
    assert (done.exit_code, [row["now"] for row in json.loads(done.stdout)]) == (0, [now])
    assert done.stderr.startswith(f"Warning: {said}") if said else not done.stderr


def test_group_reset_refuses_unknown_groups_topics_and_partitions(orders: Embedded) -> None:
    nobody = odradek_command(orders, "group", "reset", "nobody", "--to", "end")
    assert (nobody.exit_code, "has no committed offsets" in nobody.stderr) == (3, True)
    nowhere = odradek_command(orders, "group", "reset", "billing", "--to", "end", "-t", "nosuch")
    assert (nowhere.exit_code, 'topic "nosuch" does not exist' in nowhere.stderr) == (3, True)
    no_number = odradek_command(orders, "group", "reset", "billing", "--to", "end", "-t", "orders:x")
    assert (no_number.exit_code, "use TOPIC or TOPIC:0,1" in no_number.stderr) == (2, True)
    unknown = odradek_command(orders, "group", "members", "nobody")
    assert (unknown.exit_code, 'group "nobody" does not exist' in unknown.stderr) == (3, True)


def test_group_reset_refuses_a_group_with_members(orders: Embedded) -> None:
    with Consumer("orders", bootstrap=orders.bootstrap_servers, group="billing") as member:
        assert member.poll(60) is not None
        refused = odradek_command(orders, "group", "reset", "billing", "--to", "end", "--yes")
    assert (refused.exit_code, 'group "billing" has members' in refused.stderr) == (1, True)


def test_group_ls_fails_when_a_broker_cannot_list_its_groups(orders: Embedded) -> None:
    orders.fail("ListGroups", "COORDINATOR_NOT_AVAILABLE", times=None)
    for command in ("ls", "lag"):
        refused = odradek_command(orders, "group", command)
        assert (refused.exit_code, "COORDINATOR_NOT_AVAILABLE" in refused.stderr) == (1, True)


def test_an_invalid_offset_is_reported_with_its_option(orders: Embedded) -> None:
    refused = odradek_command(orders, "group", "reset", "billing", "--to", "rubbish")
    assert (refused.exit_code, "Invalid value for --to: 'rubbish'" in refused.stderr) == (2, True)


def test_trim_and_reset_refuse_a_range(orders: Embedded) -> None:
    for command in (["topic", "trim", "orders", "--yes", "--before"], ["group", "reset", "billing", "--to"]):
        refused = odradek_command(orders, *command, "3:6")
        assert (refused.exit_code, "'3:6' is a range" in refused.stderr) == (2, True)


def test_a_topic_is_trimmed(orders: Embedded) -> None:
    assert rows(orders, "topic", "trim", "orders", "--before", "6", "--yes") == [{"partition": 0, "start": 6}]
    assert rows(orders, "topic", "trim", "orders", "--before", "-1", "--yes") == [{"partition": 0, "start": 9}]
    assert rows(orders, "topic", "describe", "orders")[0]["start"] == 9


def test_trim_reports_trimmed_partitions_when_another_is_too_short(odradek: Embedded) -> None:
    succeed(odradek, "topic", "create", "uneven", "-p", "2")
    succeed(odradek, "produce", "uneven", "-p", "1", stdin="1\n2\n3\n")
    done = odradek_command(odradek, "topic", "trim", "uneven", "--before", "2", "-y", "-o", "json")
    assert (done.exit_code, json.loads(done.stdout)) == (1, [{"partition": 1, "start": 2}])
    assert done.stderr == "Error: uneven-0: Broker: Offset out of range (OFFSET_OUT_OF_RANGE)\n"


def test_all_output_formats_have_the_same_content(orders: Embedded) -> None:
    [row] = rows(orders, "topic", "describe", "orders")
    jsonl = succeed(orders, "topic", "describe", "orders", "-o", "jsonl")
    assert [json.loads(line) for line in jsonl.splitlines()] == [row]
    yaml = succeed(orders, "topic", "describe", "orders", "-o", "yaml")
    assert yaml == "".join(
        f"{'  ' if n else '- '}{key}: {json.dumps(value)}\n" for n, (key, value) in enumerate(row.items())
    )
    [line] = csv.DictReader(io.StringIO(succeed(orders, "topic", "describe", "orders", "-o", "csv")))
    assert (line["partition"], line["replicas"], line["end"]) == ("0", "1", "10")
    assert succeed(orders, "topic", "describe", "orders").splitlines()[0].split() == [key.upper() for key in row]
    assert succeed(orders, "group", "ls", "-o", "yaml").startswith('- group: "billing"')


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """The directory of a partition with three segments, after a clean stop."""
    with Embedded(data=tmp_path / "data") as broker:
        succeed(broker, "topic", "create", "t", "-p", "1", "-c", "segment.bytes=1048576")
        text = "".join(f"{n}:{'x' * 5000}\n" for n in range(500))
        succeed(broker, "produce", "t", "-K", ":", "-X", "batch.size=16384", stdin=text)
    [partition] = (tmp_path / "data").rglob("t-0")
    return partition


def test_segments_are_dumped_and_verified(stored: Path, odradek: Embedded) -> None:
    batches = rows(odradek, "log", "dump", str(stored))
    assert (batches[0]["offset"], batches[-1]["last"]) == (0, 499)
    assert sum(batch["records"] for batch in batches) == 500
    records = succeed(odradek, "log", "dump", str(min(stored.glob("*.log"))), "--records").splitlines()
    assert json.loads(records[3])["key"] == "3"
    assert rows(odradek, "log", "verify", str(stored.parent)) == []


def test_damage_is_found_and_named(stored: Path, odradek: Embedded) -> None:
    segment = sorted(stored.glob("*.log"))[1]
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(data)
    found = odradek_command(odradek, "log", "verify", str(stored), "-o", "json")
    assert found.exit_code == 1
    assert [row["problem"] for row in json.loads(found.stdout)] == ["the checksum does not match"]
    segment.write_bytes(data[:-10])
    found = odradek_command(odradek, "log", "verify", str(stored), "-o", "json")
    (cut,) = [row for row in json.loads(found.stdout) if "ends after" in row["problem"]]
    assert cut["position"] > 0, "the batch that is broken, not the one before it"
    nothing = odradek_command(odradek, "log", "dump", str(stored.parent))
    assert (nothing.exit_code, "is not a segment file" in nothing.stderr) == (3, True)


def test_a_reader_is_not_given_what_is_damaged(stored: Path, odradek: Embedded) -> None:
    segment = sorted(stored.glob("*.log"))[1]
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(data)
    damaged_from = int(segment.stem)
    with Embedded(data=stored.parent) as broker:
        read = odradek_command(broker, "consume", "t", "-o", ":", "-f", "%o\\n")
        with Consumer("t", bootstrap=broker.bootstrap_servers, stop_at_end=True) as consumer:
            records = iter(consumer)
            assert [next(records).offset for _ in range(damaged_from)] == list(range(damaged_from))
            with pytest.raises(ClientError, match=r"^t\[0\] from .* failed CRC32C check .*`odradek log verify`"):
                next(records)
    assert (read.exit_code, read.stdout.split()) == (1, [str(offset) for offset in range(damaged_from)])
    assert "t[0]: MessageSet at offset" in read.stderr
    assert "`odradek log verify` on the directory t-0" in read.stderr


def test_log_verify_fails_without_segment_files(tmp_path: Path, odradek: Embedded) -> None:
    (tmp_path / "broker.log").touch()
    for path in (tmp_path, tmp_path / "broker.log", tmp_path / "nosuch"):
        nothing = odradek_command(odradek, "log", "verify", str(path))
        assert (nothing.exit_code, "is not a segment file" in nothing.stderr) == (3, True)


def test_log_dump_keeps_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    with Embedded(data=tmp_path / "data") as broker:
        succeed(broker, "topic", "create", "t", "-p", "1")
        succeed(broker, "produce", "t", stdin=b"\xff\xfe\n")
        [partition] = (tmp_path / "data").rglob("t-0")
        command = [sys.executable, "-m", "odradek.cli", "log", "dump", "--records", str(partition)]
        dumped = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
        succeed(broker, "produce", "t", "--input", "jsonl", stdin=dumped)
        assert succeed(broker, "consume", "t", "-o", ":", "-f", "%v{hex}\\n") == "fffe\nfffe\n"


def test_log_verify_finds_a_wrong_index_entry(stored: Path, odradek: Embedded) -> None:
    index = next(index for index in sorted(stored.glob("*.index")) if index.stat().st_size)
    data = bytearray(index.read_bytes())
    data[7] ^= 1
    index.write_bytes(data)
    found = odradek_command(odradek, "log", "verify", str(stored), "-o", "json")
    assert "is not in the batch at" in json.loads(found.stdout)[0]["problem"]


@pytest.fixture
def with_transactions(tmp_path: Path) -> Path:
    """The directory of a partition with a committed and an aborted transaction."""
    logs = LogDirectory(OsDisk(str(tmp_path)), SeededRng())
    logs.load(lambda _: LogConfig(), 0)
    log = logs.create_log(TopicPartition("t", 0), TopicId(bytes(16)), LogConfig(), 0)
    for producer_id, committed in ((1, True), (2, False)):
        batch = encode_batch(
            [Record(value=b"v", timestamp=0)],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            attributes=TRANSACTIONAL,
        )
        log.appending.as_leader(memoryview(batch), 0, 0, NOT_REQUIRED)
        log.appending.marker(TxnMarker(producer_id, 0, 0, committed), 0, 0)
    logs.close(broker_epoch=1)
    return tmp_path / "t-0"


def test_log_dump_shows_transactions(with_transactions: Path, odradek: Embedded) -> None:
    dumped = rows(odradek, "log", "dump", str(with_transactions))
    shown = [(row["producer"], row["transaction"]) for row in dumped]
    assert shown == [(1, "part"), (1, "commit"), (2, "part"), (2, "abort")]
    assert len(succeed(odradek, "log", "dump", str(with_transactions), "--records").splitlines()) == 2


def test_log_verify_checks_the_index_of_aborted_transactions(with_transactions: Path, odradek: Embedded) -> None:
    assert rows(odradek, "log", "verify", str(with_transactions)) == []
    [index] = with_transactions.glob("*.txnindex")
    data = bytearray(index.read_bytes())
    data[9] = 1
    index.write_bytes(data)
    found = odradek_command(odradek, "log", "verify", str(with_transactions), "-o", "json")
    problem = "no marker at offset 3 aborts a transaction of producer 1"
    assert [row["problem"] for row in json.loads(found.stdout)] == [problem]


def test_perf_measures_throughput_and_latency(odradek: Embedded) -> None:
    succeed(odradek, "topic", "create", "fast", "-p", "1")
    [written] = rows(odradek, "perf", "produce", "fast", "-n", "5000", "-s", "50")
    assert written["records"] == 5000
    assert written["records_per_s"] > 0 < written["p99_ms"]
    [read] = rows(odradek, "perf", "consume", "fast")
    assert read["records"] == 5000
    [there_and_back] = rows(odradek, "perf", "e2e", "fast", "-n", "20")
    assert there_and_back["p50_ms"] > 0
    assert rows(odradek, "group", "ls") == [], "nothing is left behind"


def test_doctor_checks_the_machine_and_the_cluster(odradek: Embedded, tmp_path: Path) -> None:
    found = {row["check"]: row for row in rows(odradek, "doctor", "--data", str(tmp_path))}
    checks = ("Python", "librdkafka", "cluster", "metadata quorum", "partitions")
    assert {found[check]["verdict"] for check in checks} == {"ok"}
    assert "✓ cluster" in succeed(odradek, "doctor")
    nobody = odradek_command(odradek, "doctor", "-b", "127.0.0.1:1")
    assert nobody.exit_code == 1
    assert "✗ bootstrap: 127.0.0.1:1: Connection refused" in nobody.stdout


def completed(broker: Embedded, line: str) -> list[str]:
    words = line.split(" ")
    environment = {
        "_ODRADEK_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "ODRADEK_BOOTSTRAP": broker.bootstrap_servers,
    }
    # A user at the shell waits for half a second at most. This test needs the answer, however long it takes.
    patient = "from odradek.cli import names; names.PATIENCE_S = 30"
    program = f"{patient}; from odradek.cli.main import main; main(prog_name='odradek')"
    answer = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, capture_output=True, text=True, check=False
    )
    return [text.partition(",")[2] for text in answer.stdout.split()]


def test_a_shell_completes_commands_topics_and_groups(orders: Embedded) -> None:
    assert completed(orders, "odradek comp") == ["completion"]
    assert completed(orders, "odradek consume or") == ["orders"]
    assert completed(orders, "odradek topic describe ") == ["orders"]
    assert completed(orders, "odradek group reset b") == ["billing"]
    assert completed(orders, f"odradek topic describe -b {orders.bootstrap_servers} o") == ["orders"]
    for shell in ("bash", "zsh", "fish"):
        assert "_ODRADEK_COMPLETE" in succeed(orders, "completion", shell)
