"""Apache Kafka and its tools on directories that Odradek wrote, and the other way round.

`make interop` fetches Kafka with Maven and needs Java 17.
"""

from __future__ import annotations

import re
import shutil
import zipfile
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from support import small_world
from support.broker_process import BrokerProcess
from support.kafka_process import KafkaProcess, dump
from support.log_audit import audit_partition

ENDINGS = ["stopped", "killed"]
ADDED = ("edges", 0)
# Errors that kafka-dump-log prints with exit status 0.
COMPLAINTS = re.compile(
    r"isvalid: false|[Mm]ismatch|rror|xception|out of order|not found|[Ff]ailed|invalid bytes|corrupt"
)


def filled(data: Path, ending: str) -> BrokerProcess:
    """A filled data directory of Odradek, with the broker ended. The next broker can use its port."""
    broker = BrokerProcess(data).start()
    member = small_world.fill(broker.bootstrap)
    end(broker, ending, member)
    return broker


def end(broker: BrokerProcess | KafkaProcess, ending: str, member: Consumer | None = None) -> None:
    if ending == "killed":
        broker.kill()
        return
    if member is not None:
        member.close()
    broker.stop()


@pytest.fixture(scope="module", params=ENDINGS)
def ours(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp(request.param) / "data", request.param).data


def test_kafka_reads_our_records(ours):
    text = dump("--deep-iteration", "--print-data-log", files=sorted(ours.glob("[a-z]*-?/*.log")))
    # A segment that does not begin at 0 is always "non-consecutive" to this tool.
    text = re.sub(r"Non-consecutive offsets in \S+\n\s+-1 is followed by \d+", "", text)
    assert not COMPLAINTS.search(text)
    assert "onsecutive" not in text
    assert text.count("| offset: ") == sum(map(len, small_world.expected().values())) + small_world.TRIMMED_TO
    for codec in small_world.CODECS:
        assert len(re.findall(rf"compresscodec: {codec} .* isvalid: true", text)) >= 1
    assert re.search(r"offset: 4 .* headerKeys: \[a,a,ü\] key: schlüssel payload: größe", text)
    assert re.search(r"offset: 2 CreateTime: \d+ keySize: -1 valueSize: -1 sequence: 2 headerKeys: \[\]", text)
    assert len(re.findall(r"LogAppendTime: \d+ size", text)) == 1


def test_dump_log_finds_no_errors_in_our_indexes(ours):
    """kafka-dump-log compares each entry with the log beside it."""
    indexes = sorted(path for path in ours.glob("*-?/*.index") if path.stat().st_size)
    times = sorted(path for path in ours.glob("*-?/*.timeindex") if path.stat().st_size)
    assert len(indexes) >= 2
    assert len(times) >= 2
    for option in ("--verify-index-only", "--index-sanity-check"):
        assert not COMPLAINTS.search(dump(option, files=indexes + times))
    printed = dump(files=indexes + times)
    assert not COMPLAINTS.search(printed)
    assert "offset: 19 position: 241" in printed


def test_kafka_reads_our_producer_snapshots(ours):
    text = dump(files=sorted(ours.glob("*-?/*.snapshot")))
    assert not COMPLAINTS.search(text)
    assert re.search(
        r"producerId: \d+ producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty "
        rf"lastTimestamp: {small_world.FIRST_MS + 69} firstSequence: 60 lastSequence: 69 lastOffset: 69 offsetDelta: 9",
        text,
    )


def test_kafka_reads_our_groups(ours):
    text = dump("--offsets-decoder", files=sorted(ours.glob("__consumer_offsets-?/*.log")))
    assert not COMPLAINTS.search(text)
    assert '"group":"bookkeeper","topic":"codecs","partition":0}} payload: {"version":"4","data":{"offset":7' in text
    assert '"group":"readers","topic":"rolled","partition":1}} payload: {"version":"4","data":{"offset":120' in text
    assert re.search(r'"protocolType":"consumer","generation":1,"protocol":"range".*"topics":\["rolled"\]', text)


def test_kafka_reads_our_metadata(ours):
    files = [
        ours / "bootstrap.checkpoint",
        *sorted((ours / "__cluster_metadata-0").glob("*.checkpoint")),
        *sorted((ours / "__cluster_metadata-0").glob("*.log")),
    ]
    text = dump("--cluster-metadata-decoder", files=files)
    assert not COMPLAINTS.search(text)
    for word in ("SnapshotHeader", "SnapshotFooter", "KRaftVoters", "LeaderChange", "KRaftVersion"):
        assert word in text
    assert '"type":"TOPIC_RECORD","version":0,"data":{"name":"rolled"' in text
    assert '"resourceName":"rolled","name":"internal.segment.bytes","value":"2000"' in text


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("00000000000000000000.log", ["--deep-iteration"]),
        ("00000000000000000000.index", ["--verify-index-only"]),
        ("00000000000000000000.timeindex", ["--verify-index-only"]),
        ("00000000000000000070.snapshot", []),
    ],
)
def test_dump_log_reports_a_single_wrong_bit(tmp_path, ours, name, options):
    """Checks the tests above: one wrong bit must cause an error."""
    shutil.copytree(ours / "rolled-0", tmp_path / "rolled-0")
    broken = tmp_path / "rolled-0" / name
    content = bytearray(broken.read_bytes())
    content[-1] ^= 1
    broken.write_bytes(content)
    assert COMPLAINTS.search(dump(*options, files=[broken]))


@pytest.mark.parametrize("ending", ENDINGS)
def test_directory_moves_from_odradek_to_kafka_and_back(tmp_path, ending):
    broker = BrokerProcess(tmp_path / "data").start()
    member = small_world.fill(broker.bootstrap)
    producer = small_world.IdempotentProducer(broker.bootstrap)
    assert producer.send(*ADDED, [b"ours 1", b"ours 2"]) == [5, 6]
    end(broker, ending, member)

    kafka = KafkaProcess(broker.data, broker.port).start()
    added = [b"ours 1", b"ours 2"]
    check(kafka, ending, added)
    # The sequence continues: Kafka knows the producer from our snapshot, or from our log.
    assert producer.send(*ADDED, [b"kafkas 1", b"kafkas 2"]) == [7, 8]
    added += [b"kafkas 1", b"kafkas 2"]
    check(kafka, ending, added)
    end(kafka, ending)

    broker.start()
    check(broker, ending, added)
    assert producer.send(*ADDED, [b"ours 3"]) == [9]
    check(broker, ending, [*added, b"ours 3"])
    member.close()
    broker.stop()
    assert audit_partition(broker.data / "edges-0") == 10


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("configured_voters", [False, True], ids=["standalone", "configured voters"])
def test_directory_moves_from_kafka_to_odradek_and_back(tmp_path, ending, configured_voters):
    kafka = KafkaProcess(tmp_path / "data", configured_voters=configured_voters).start()
    member = small_world.fill(kafka.bootstrap)
    producer = small_world.IdempotentProducer(kafka.bootstrap)
    assert producer.send(*ADDED, [b"kafkas 1", b"kafkas 2"]) == [5, 6]
    end(kafka, ending, member)

    broker = BrokerProcess(kafka.data)
    broker.port = kafka.port
    broker.start()
    added = [b"kafkas 1", b"kafkas 2"]
    check(broker, ending, added)
    assert producer.send(*ADDED, [b"ours 1", b"ours 2"]) == [7, 8]
    added += [b"ours 1", b"ours 2"]
    check(broker, ending, added)
    end(broker, ending)

    kafka.start()
    check(kafka, ending, added)
    assert producer.send(*ADDED, [b"kafkas 3"]) == [9]
    check(kafka, ending, [*added, b"kafkas 3"])
    member.close()
    kafka.stop()


@pytest.mark.parametrize("ending", ENDINGS)
def test_kafka_reads_its_metadata_snapshots_after_odradek_used_the_directory(tmp_path, ending):
    broker = BrokerProcess(unpacked("aged", tmp_path)).start()
    check(broker, ending, [])
    assert small_world.IdempotentProducer(broker.bootstrap).send(*ADDED, [b"ours"]) == [5]
    end(broker, ending)
    with KafkaProcess(broker.data) as kafka:
        check(kafka, ending, [b"ours"])


@pytest.mark.parametrize("ending", ENDINGS)
def test_kafka_reads_its_compacted_topic_and_kip_848_group_after_odradek_used_them(tmp_path, ending):
    """While Odradek used the directory, it had a classic group with the same name."""
    broker = BrokerProcess(unpacked("compacted", tmp_path)).start()
    assert read_next(broker, b"ours", {}) == 132
    end(broker, ending)
    with KafkaProcess(broker.data) as kafka:
        assert small_world.committed(kafka.bootstrap, "modern", [("compacted", 0)]) == {("compacted", 0): (133, "")}
        assert read_next(kafka, b"kafkas", {"group.protocol": "consumer"}) == 133


def read_next(broker: BrokerProcess | KafkaProcess, value: bytes, group: dict[str, object]) -> int:
    """Writes a record, reads it with the group, and commits. Returns its offset."""
    producer = Producer(small_world.client(broker.bootstrap))
    producer.produce("compacted", value, "key 1")
    assert producer.flush(20) == 0
    member = Consumer(small_world.client(broker.bootstrap, "modern") | group)
    member.subscribe(["compacted"])
    (message,) = member.consume(1, 60)
    assert message.value() == value
    member.commit(asynchronous=False)
    member.close()
    return message.offset()


def unpacked(name: str, where: Path) -> Path:
    with zipfile.ZipFile(Path(__file__).parents[1] / "formats" / "golden" / f"{name}.zip") as archive:
        archive.extractall(where / "data")
    return where / "data"


def check(broker: BrokerProcess | KafkaProcess, ending: str, added: list[bytes]) -> None:
    small_world.check(broker.bootstrap, after_kill=ending == "killed", added={ADDED: added})
