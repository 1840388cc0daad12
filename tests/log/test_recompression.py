"""Recompression with the codec of the topic: what changes, what stays, and what is refused."""

import struct

import cramjam
import pytest

from odradek.base import limits
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.limits import MIB
from odradek.log.appended import RecordsRefused
from odradek.log.config import LogConfig
from odradek.log.recompression import has_other_codec, ready_to_append, recompressed_own
from odradek.protocol.batch import (
    CRC,
    CRC_POSITION,
    HEADER_BYTES,
    checksum,
    encode_batch,
    has_valid_checksum,
    iter_records,
    packed_batch,
    read_header,
)
from odradek.protocol.compression import Codec
from odradek.protocol.records import Record

TYPES = {"uncompressed": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}
NOW = 1_700_000_000_000
RECORDS = [
    Record(key=b"k", value=b"value " * 20, headers=(("h", b"x"), ("empty", None)), timestamp=NOW, offset=0),
    Record(key=None, value=None, timestamp=NOW + 3_000_000, offset=1),
    Record(key=b"", value=b"y" * 100_000, timestamp=NOW - 5, offset=2),
]


def stored(compression_type, **config):
    return LogConfig(compression_type=compression_type, **config)


def patched(batch, position, form, value):
    changed = bytearray(batch)
    struct.pack_into(form, changed, position, value)
    CRC.pack_into(changed, CRC_POSITION, checksum(changed))
    return changed


def with_body(codec, body, count=1):
    header = read_header(encode_batch([Record(value=b"x", timestamp=NOW)] * count))
    return packed_batch(header._replace(attributes=int(codec)), body)


@pytest.mark.parametrize("compression_type", TYPES)
@pytest.mark.parametrize("codec", Codec)
def test_records_and_header_survive_every_change_of_codec(codec, compression_type):
    batch = encode_batch(RECORDS, codec=codec, producer_id=77, producer_epoch=5, base_sequence=1234, leader_epoch=3)
    before = bytes(batch)
    result = ready_to_append(batch, stored(compression_type))
    header, came = read_header(result), read_header(before)
    assert header.codec == TYPES[compression_type]
    assert has_valid_checksum(result)
    assert list(iter_records(result)) == RECORDS
    same = {"length": 0, "crc": 0, "attributes": 0}
    assert header._replace(**same) == came._replace(**same)
    if codec == TYPES[compression_type]:
        assert result is batch
        assert result == before


def test_compression_type_producer_keeps_every_codec():
    for codec in Codec:
        batch = encode_batch(RECORDS, codec=codec)
        assert not has_other_codec(batch, LogConfig().codec)
        assert ready_to_append(batch, LogConfig()) is batch


def test_recompression_keeps_the_other_attribute_bits():
    transactional = patched(encode_batch(RECORDS), 21, ">h", 0x10)
    assert read_header(ready_to_append(transactional, stored("zstd"))).attributes == 0x10 | Codec.ZSTD


def test_recompression_computes_the_max_timestamp_from_the_records():
    lying = patched(encode_batch(RECORDS), 35, ">q", 17)
    assert read_header(ready_to_append(lying, stored("lz4"))).max_timestamp == NOW + 3_000_000


def test_compression_levels_are_used():
    text = b"".join(b"%d sheep jump over %d fences, " % (n * 7919 % 1009, n) for n in range(3000))
    for name, weak, strong in (("gzip", 1, 9), ("zstd", -50, 19), ("lz4", 9, 12)):
        sizes = []
        for level in (weak, strong):
            config = stored(name, **{f"compression_{name}_level": level})
            batch = ready_to_append(encode_batch([Record(value=text, timestamp=NOW)]), config)
            assert [record.value for record in iter_records(batch)] == [text]
            sizes.append(len(batch))
        assert sizes[1] < sizes[0]


def test_gzip_level_minus_one_is_the_default_level():
    one, six = (ready_to_append(encode_batch(RECORDS), stored("gzip", compression_gzip_level=n)) for n in (-1, 6))
    assert one == six


@pytest.mark.parametrize("level", range(1, 18))
def test_every_lz4_level_writes_independent_blocks(level):
    """Java refuses frames whose blocks refer to each other."""
    data = bytes(range(256)) * 1024 + b"the same again " * 9000
    config = stored("lz4", compression_lz4_level=level)
    batch = ready_to_append(encode_batch([Record(value=data, timestamp=NOW)]), config)
    assert batch[HEADER_BYTES + 4] & 0x20
    assert [record.value for record in iter_records(batch)] == [data]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not what a codec writes",
        bytes(cramjam.zstd.compress(b"")),
        bytes(cramjam.zstd.compress(b"no records at all")),
        bytes(cramjam.zstd.compress(bytes(encode_batch(RECORDS)[HEADER_BYTES:]) + b"\0")),
        bytes(cramjam.zstd.compress(bytes(encode_batch(RECORDS[:1])[HEADER_BYTES:])))[:-3],
    ],
)
def test_batch_with_invalid_records_is_refused(body):
    with pytest.raises(KafkaError) as refusal:
        ready_to_append(with_body(Codec.ZSTD, body), stored("gzip"))
    assert refusal.value.code == ErrorCode.INVALID_RECORD


def test_decompression_bomb_is_refused_at_the_size_limit():
    bomb = with_body(Codec.ZSTD, bytes(cramjam.zstd.compress(bytes(limits.decompressed_batch_bytes_max + 1))))
    with pytest.raises(KafkaError, match=f"more than {limits.decompressed_batch_bytes_max}") as refusal:
        ready_to_append(bomb, stored("uncompressed", max_message_bytes=500 * MIB))
    assert refusal.value.code == ErrorCode.INVALID_RECORD


def test_batch_with_too_many_records_is_not_decompressed():
    many = patched(encode_batch(RECORDS), 57, ">i", limits.checked_batch_records_max + 1)
    many = patched(many, 23, ">i", limits.checked_batch_records_max)
    with pytest.raises(KafkaError, match="records per batch"):
        ready_to_append(many, stored("gzip"))


def test_max_message_bytes_counts_after_recompression():
    packed = encode_batch([Record(value=bytes(50_000), timestamp=NOW)], codec=Codec.GZIP)
    assert len(packed) < 1000
    with pytest.raises(KafkaError, match=r"max\.message\.bytes") as refusal:
        ready_to_append(packed, stored("uncompressed", max_message_bytes=1000))
    assert refusal.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert ready_to_append(packed, stored("zstd", max_message_bytes=1000))


def test_batch_with_invalid_header_is_returned_unchanged():
    whole = encode_batch(RECORDS)
    control = patched(whole, 21, ">h", 0x20)
    for batch in (
        whole[:40],
        whole[:-1],
        whole[:-1] + b"x",  # its checksum
        control,
        patched(whole, 57, ">i", 0),
        patched(whole, 57, ">i", 2),
        patched(whole, 21, ">h", 7),  # its codec
        patched(whole, 16, ">b", 1),  # its format
    ):
        assert ready_to_append(bytearray(batch), stored("zstd")) == batch


@pytest.mark.parametrize(("base", "delta"), [(2**63 - 1, 2), (-(2**63), 1)])
def test_a_timestamp_beyond_64_bits_is_refused(base, delta):
    overflowing = patched(with_body(Codec.NONE, bytes([14, 0, delta, 0, 1, 2, ord("x"), 0])), 27, ">q", base)
    with pytest.raises(KafkaError) as refusal:
        ready_to_append(overflowing, stored("gzip"))
    assert refusal.value.code == ErrorCode.INVALID_TIMESTAMP


def test_batch_of_the_broker_may_exceed_max_message_bytes():
    packed = encode_batch([Record(key=b"k", value=b"x" * 5000, timestamp=NOW)], codec=Codec.ZSTD)
    own = recompressed_own(packed, stored("uncompressed", max_message_bytes=1000))
    assert read_header(own).codec == Codec.NONE
    control = patched(packed, 21, ">h", 0x20 | Codec.ZSTD)
    assert recompressed_own(control, stored("uncompressed")) is control


def test_keys_are_checked_also_without_recompression():
    keyless = encode_batch(RECORDS, codec=Codec.ZSTD)
    with pytest.raises(RecordsRefused) as refusal:
        ready_to_append(keyless, stored("zstd", cleanup_policy=frozenset({"compact"})))
    assert [index for index, _ in refusal.value.records] == [1]
