"""produce and consume: formats, ranges, files and round trips."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from odradek.cli.consume import _Printer
from odradek.cli.main import main
from odradek.cli.produce import _Sending
from odradek.cli.watching import Watch
from odradek.testing import Embedded
from support.command_line import odradek_command, succeed


@pytest.fixture
def lines(odradek_session: Embedded, request: pytest.FixtureRequest) -> str:
    """A topic of one partition with ten lines."""
    name = f"lines-{abs(hash(request.node.name))}"
    succeed(odradek_session, "topic", "create", name, "-p", "1")
    succeed(
        odradek_session, "produce", name, "-K", ":", "-H", "who=me", stdin="".join(f"k{n}:v{n}\n" for n in range(10))
    )
    return name


@pytest.mark.parametrize(
    ("offset", "values"),
    [
        ("3:5", "v3 v4"),
        (":2", "v0 v1"),
        ("-2:", "v8 v9"),
        ("+8", "v8 v9"),
        ("7:end", "v7 v8 v9"),
        ("@-1h:end", "v0 v1 v2 v3 v4 v5 v6 v7 v8 v9"),
        ("end:end", ""),
    ],
)
def test_ranges(odradek_session: Embedded, lines: str, offset: str, values: str) -> None:
    assert succeed(odradek_session, "consume", lines, "-o", offset, "-e").split() == values.split()


def test_consume_stops_at_the_end_of_a_range(odradek_session: Embedded, lines: str) -> None:
    assert succeed(odradek_session, "consume", lines, "-o", "3:5") == "v3\nv4\n"
    assert succeed(odradek_session, "consume", lines, lines, "-o", "3:5") == "v3\nv4\n", "named twice, read once"


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("%t %p %o %k=%v", "{topic} 0 0 k0=v0"),
        ("%k{hex} %v{base64} %v{json}", '6b30 djA= "v0"'),
        ("%h{[%k:%v]} %h", "[who:me] who=me"),
        ("%K %S %% 100%%", "2 2 % 100%"),
        ("%d{%Y}", "20"),
        ("%s\\t→", "v0\t→"),
    ],
)
def test_formats(odradek_session: Embedded, lines: str, form: str, text: str) -> None:
    assert text.format(topic=lines) in succeed(odradek_session, "consume", lines, "-o", "0:1", "-f", form + "\\n")


def test_a_timestamp_that_is_no_time_is_shown_as_a_number(odradek_session: Embedded) -> None:
    limit = f"message.timestamp.after.max.ms={2**63 - 1}"
    succeed(odradek_session, "topic", "create", "microseconds", "-p", "1", "-c", limit)
    producer = Producer({"bootstrap.servers": odradek_session.bootstrap_servers})
    producer.produce("microseconds", b"x", timestamp=1_767_225_600_000_000)
    assert producer.flush(60) == 0
    assert succeed(odradek_session, "consume", "microseconds", "-o", "0:1", "-f", "%d\\n") == "1767225600000000\n"


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("%v{rot13}", "unknown encoding; use hex, base64 or json"),
        ("\\x", "truncated"),
        ("yaml", "'yaml' is not a format: use json, jsonl or a format string"),
        ("%v %q", "%q: unknown field"),
        ("100%", "%: unknown field"),
        ("%k{hex", "a brace is not closed"),
        ("%o{hex}", "%o takes no encoding"),
        ("%h{%k=%s}", "%s is not a field of a header; use %k or %v"),
        ("\\\\\\q", "\\q: unknown escape"),
    ],
)
def test_an_invalid_format_is_refused(odradek_session: Embedded, form: str, said: str) -> None:
    refused = odradek_command(odradek_session, "consume", "anything", "-f", form)
    assert (refused.exit_code, said in refused.stderr) == (2, True), refused.stderr


def test_consume_reports_a_range_without_records(odradek_session: Embedded, lines: str) -> None:
    done = odradek_command(odradek_session, "consume", lines, "-o", "5:5")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "no records in this range\n")


def test_consumed_jsonl_can_be_produced_again(odradek_session: Embedded, lines: str, tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    odd.write_bytes(b"\xff\xfe:\x80\n:\n")
    succeed(odradek_session, "produce", lines, str(odd), "-K", ":", "-Z")
    dumped = succeed(odradek_session, "consume", lines, "-o", ":", "-f", "jsonl")
    assert json.loads(dumped.splitlines()[0]) == {
        "topic": lines, "partition": 0, "offset": 0, "key": "k0", "value": "v0", "headers": [["who", "me"]],
        "timestamp": json.loads(dumped.splitlines()[0])["timestamp"],
    }  # fmt: skip
    succeed(odradek_session, "topic", "create", f"{lines}-copy", "-p", "1")
    succeed(odradek_session, "produce", f"{lines}-copy", "--input", "jsonl", stdin=dumped)
    again = succeed(odradek_session, "consume", f"{lines}-copy", "-o", ":", "-f", "jsonl")
    assert again == dumped.replace(lines, f"{lines}-copy")
    assert json.loads(again.splitlines()[-1])["value"] is None


def test_an_invalid_jsonl_line_is_reported_with_its_number(odradek_session: Embedded, lines: str) -> None:
    refused = odradek_command(odradek_session, "produce", lines, "--input", "jsonl", stdin='{"value": "good"}\n[1]\n')
    assert refused.exit_code == 1
    assert "line 2 is not a record as `odradek consume -f jsonl` prints it" in refused.stderr


def test_records_before_an_invalid_jsonl_line_are_written(odradek_session: Embedded, lines: str) -> None:
    wrong = ('{"timestamp": "now"}', '{"headers": {"ab": "c"}}', "")
    for line in wrong:
        text = f'{{"value": "good"}}\n{line}\n'
        refused = odradek_command(
            odradek_session, "produce", lines, "--input", "jsonl", "-X", "linger.ms=200", stdin=text
        )
        assert (refused.exit_code, "The lines before it were written" in refused.stderr) == (1, True)
    assert succeed(odradek_session, "consume", lines, "-o", "10:end").split() == ["good"] * len(wrong)


def test_configs_of_the_client(odradek_session: Embedded, lines: str) -> None:
    assert succeed(odradek_session, "consume", lines, "-o", "0:1", "-X", "fetch.max.wait.ms=10") == "v0\n"
    refused = odradek_command(odradek_session, "consume", lines, "-X", "fetch.max.weight.ms=10")
    assert refused.exit_code == 2
    assert "fetch.max.wait.ms" in refused.stderr


def test_revoked_partitions_do_not_count_as_read_to_the_end(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    class Told:
        def __init__(self, partition: int, offset: int, ended: bool = False) -> None:
            self.topic, self.partition, self.offset = lambda: "t", lambda: partition, lambda: offset
            self.error = lambda: KafkaError(KafkaError._PARTITION_EOF) if ended else None

    class Member:
        polled = iter([Told(1, 7, ended=True), Told(0, 0), Told(0, 1), Told(0, 2, ended=True)])

        def poll(self, _: float) -> Told:
            return next(self.polled)

    member = Member()
    _Printer(lambda message: b"%d\n" % message.offset(), None, Watch("", ("t",))).follow(
        member, ends_of=lambda: [TopicPartition("t", 0)]
    )
    assert capfdbinary.readouterr().out == b"0\n1\n"


def test_a_pattern_waits_for_matching_topics(odradek_session: Embedded) -> None:
    asked = [
        "consume",
        "^later-.*",
        "-g",
        "later",
        "-o",
        "beginning",
        "-n",
        "1",
        "-b",
        odradek_session.bootstrap_servers,
    ]
    asked += ["-X", "topic.metadata.refresh.interval.ms=200"]
    with subprocess.Popen([sys.executable, "-m", "odradek.cli", *asked], stdout=subprocess.PIPE, text=True) as waiting:
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(2)
        succeed(odradek_session, "topic", "create", "later-1", "-p", "1")
        succeed(odradek_session, "produce", "later-1", stdin="here\n")
        assert waiting.communicate(timeout=30) == ("here\n", None)


def test_partitions(odradek_session: Embedded) -> None:
    succeed(odradek_session, "topic", "create", "parts", "-p", "3")
    for partition in range(3):
        succeed(odradek_session, "produce", "parts", "-p", str(partition), stdin=f"in {partition}\n")
    both = succeed(odradek_session, "consume", "parts", "-p", "0,2", "-o", ":")
    assert sorted(both.splitlines()) == ["in 0", "in 2"]
    refused = odradek_command(odradek_session, "consume", "parts", "-p", "0,x", "-o", ":")
    assert "use numbers, such as 0,1" in refused.stderr


def test_slow_produce_without_a_majority_continues_while_records_are_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a majority, partitions that have a leader are still written, if slowly."""

    class Slow:
        def __init__(self, *left: int) -> None:
            self.left = list(left)

        def __len__(self) -> int:
            return self.left[0]

        def flush(self, _timeout: float) -> int:
            if len(self.left) > 1:
                self.left.pop(0)
            return self.left[0]

    asked: list[str] = []
    monkeypatch.setattr("odradek.cli.produce.require_majority", lambda _, lost: asked.append(lost))
    _Sending("", Slow(9, 5, 1, 0), "t").finish()
    assert not asked
    with pytest.raises(SystemExit):
        _Sending("", Slow(9, 5, 5), "t").finish()
    assert asked == ["5 records were not acknowledged: "]


@pytest.mark.parametrize("index", [-1, 0])
def test_produce_says_that_the_topic_was_deleted_meanwhile(
    odradek: Embedded, capsys: pytest.CaptureFixture[str], index: int
) -> None:
    """Records without a partition have partition -1."""
    succeed(odradek, "topic", "create", "order", "-p", "1")
    sending = _Sending("", Producer({"bootstrap.servers": odradek.bootstrap_servers, "log_level": 0}), "orders")
    refused = KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    with click.Context(main), pytest.raises(SystemExit):
        sending._require_partition(refused, index)
    assert 'topic "orders" does not exist. Did you mean "order"?' in capsys.readouterr().err
    sending = _Sending("", Producer({"bootstrap.servers": odradek.bootstrap_servers, "log_level": 0}), "order")
    sending._require_partition(refused, -1)  # the reason is another one


def test_consume_continues_when_a_partition_is_gone(odradek: Embedded) -> None:
    """Its topic was deleted and created again with fewer partitions."""
    succeed(odradek, "topic", "create", "t", "-p", "1")
    consumer = Consumer({"bootstrap.servers": odradek.bootstrap_servers, "log_level": 0, "group.id": "g"})
    consumer.assign([TopicPartition("t", 0), TopicPartition("t", 1)])
    watch = Watch(odradek.bootstrap_servers, ("t",))
    watch.suspicious = True
    watch.look(consumer)
    consumer.close()
    assert not watch.suspicious
