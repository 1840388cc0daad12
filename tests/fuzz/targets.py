"""The code that reads untrusted bytes first. Each target accepts any bytes: every exception is a bug.

The first two bytes of a request choose API and version, the rest is its body. A decoded message must be the same after
it is encoded and decoded again. A batch is tried as it is, and with a correct length and checksum.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress

from odradek.adapters.memory_disk import MemoryDisk
from odradek.base.errors import KafkaError
from odradek.base.ids import LeaderEpoch, TopicId, TopicPartition
from odradek.log.config import LogConfig
from odradek.log.directory import LogDirectory
from odradek.log.recompression import ready_to_append
from odradek.log.validation import require_keys
from odradek.metadata.configs.client_metrics import ALL_METRICS
from odradek.protocol.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD,
    checksum,
    encode_batch,
    iter_batches,
    iter_records,
    read_header,
)
from odradek.protocol.compression import Codec, compress
from odradek.protocol.fetch import decode_fetch_request
from odradek.protocol.headers import decode_request_header
from odradek.protocol.malformed import MalformedMessage, MalformedRecords
from odradek.protocol.produce import decode_produce_request
from odradek.protocol.records import Record
from odradek.server.api import table
from odradek.telemetry.samples import samples
from odradek.telemetry.subscriptions import Wanted
from support.admin_broker import SeededRng
from support.messages import Instances, message_classes, versions
from support.pushed_metrics import counter, gauge, payload, point

WALL_MS = 1_700_000_000_000
RECORDS_MAX = 10_000
EVERYTHING = Wanted((ALL_METRICS,), 1000)
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
PUSHED = payload(
    gauge("org.apache.kafka.g", point(1.5, node_id="1"), point(2)),
    counter("org.apache.kafka.c", point(3)),
    group_id="g",
)
RECOMPRESSES = LogConfig(compression_type="snappy")


def _requests() -> list[tuple[type, int]]:
    served = {module.API.key: module.API.versions for module in table.MODULES}
    kinds = [cls for cls in message_classes() if cls.__name__.endswith("Request") and getattr(cls, "KEY", -1) in served]
    return [(cls, version) for cls in kinds for version in versions(cls)]


REQUESTS = _requests()


def requests(data: bytes) -> None:
    if len(data) < 2:
        return
    cls, version = REQUESTS[int.from_bytes(data[:2], "big") % len(REQUESTS)]
    try:
        message = cls.decode(data[2:], version)
    except MalformedMessage:
        return
    assert cls.decode(message.encode(version), version) == message


def produce_and_fetch(data: bytes) -> None:
    if len(data) < 2:
        return
    body = memoryview(bytearray(data[2:]))
    for decode, first, last in ((decode_produce_request, 3, 13), (decode_fetch_request, 4, 18)):
        try:
            decode(body, first + data[0] % (last - first + 1), 0, len(body))
        except MalformedMessage:
            continue


def headers(data: bytes) -> None:
    try:
        decode_request_header(memoryview(data), 0, len(data))
    except MalformedMessage:
        return


def batches(data: bytes) -> None:
    _try_batch(data)
    if len(data) >= HEADER_BYTES:
        sealed = bytearray(data)
        struct.pack_into(">i", sealed, 8, len(sealed) - LOG_OVERHEAD)
        sealed[16] = 2
        struct.pack_into(">I", sealed, 17, checksum(sealed))
        _try_batch(bytes(sealed))


def _try_batch(data: bytes) -> None:
    """Read the batch, and append it to a log."""
    try:
        for _, batch in iter_batches(data):
            for number, _ in enumerate(iter_records(batch)):
                if number == RECORDS_MAX:
                    break
    except MalformedRecords:
        pass
    log = _log()
    before = log.log_end_offset
    # A compacted topic, or one with another codec, reads the records. Other topics append them unread.
    with suppress(KafkaError):
        require_keys(memoryview(bytearray(data)))
    with suppress(KafkaError):
        batch = ready_to_append(bytearray(data), RECOMPRESSES)
        if batch != data:
            assert len(list(iter_records(batch))) == read_header(data).records_count
    try:
        appended = log.appending.as_leader(memoryview(bytearray(data)), LeaderEpoch(0), WALL_MS)
    except KafkaError:
        assert log.log_end_offset == before
    else:
        assert appended.duplicate or log.log_end_offset > before


_logs: list = []


def _log():
    """One log for many batches. It is replaced before it grows large."""
    if not _logs or _logs[0].log_end_offset > 1_000_000:
        directory = LogDirectory(MemoryDisk(), SeededRng())
        directory.load(lambda _: LogConfig(), WALL_MS)
        log = directory.create_log(TopicPartition("t", 0), TopicId(bytes(16)), LogConfig(), WALL_MS)
        _logs[:] = [log]
    return _logs[0]


def telemetry(data: bytes) -> None:
    """The first byte chooses the codec. A name that is accepted must not break the text of /metrics."""
    if not data:
        return
    codec = Codec(data[0] % len(Codec))
    try:
        pushed = samples(codec, data[1:], EVERYTHING)
    except KafkaError:
        return
    for sample in pushed.samples:
        assert all(LABEL.fullmatch(name) for name in [sample.name, *dict(sample.labels)]), sample


TARGETS: dict[str, Callable[[bytes], None]] = {
    "requests": requests,
    "produce_and_fetch": produce_and_fetch,
    "headers": headers,
    "batches": batches,
    "telemetry": telemetry,
}


def seeds(name: str) -> Iterator[bytes]:
    """Valid inputs to begin with."""
    if name == "batches":
        records = [Record(key=b"k%d" % n, value=b"v" * n, timestamp=WALL_MS + n) for n in range(5)]
        for codec in Codec:
            yield bytes(encode_batch(records, codec=codec))
        return
    if name == "telemetry":
        for codec in Codec:
            yield bytes([codec]) + compress(codec, PUSHED)
        return
    instances = Instances(1, tame=True)
    for index, (cls, version) in enumerate(REQUESTS):
        body = instances.make(cls, version).encode(version)
        if len(body) < 4000:
            yield index.to_bytes(2, "big") + body


def compile_codecs() -> None:
    """Compile all codecs before the coverage is measured: they are otherwise made on first use."""
    for cls, version in REQUESTS:
        cls.decode(cls().encode(version), version)
