"""Kafka's small text and JSON files: offset checkpoints, leader epochs, the topic id, the clean-shutdown marker.

TOPIC_IDS is a checkpoint of our own in the same format. Kafka ignores it.

A checkpoint that cannot be parsed counts as absent. Recovery then reads more of the log than necessary.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from odradek.base.ids import TopicId, TopicPartition, uuid_from_text, uuid_text
from odradek.base.ports import Disk

story = logging.getLogger(__name__)

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"
TOPIC_IDS = "topic-id-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

T = TypeVar("T")


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return _encode(f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items())


def decode_offsets(content: bytes) -> dict[TopicPartition, int]:
    """Kafka creates these files empty."""
    return dict(_decode(content, _offset_line)) if content else {}


def encode_topic_ids(topic_ids: Mapping[TopicPartition, TopicId]) -> bytes:
    return _encode(f"{tp.topic} {tp.partition} {uuid_text(topic_id)}" for tp, topic_id in topic_ids.items())


def decode_topic_ids(content: bytes) -> dict[TopicPartition, TopicId]:
    return dict(_decode(content, _topic_id_line))


def encode_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    return _encode(f"{epoch} {start_offset}" for epoch, start_offset in entries)


def decode_epochs(content: bytes) -> list[tuple[int, int]]:
    return _decode(content, _epoch_line)


def encode_topic_id(topic_id: TopicId) -> bytes:
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


def decode_topic_id(content: bytes) -> TopicId:
    fields = dict(line.split(": ", 1) for line in content.decode("ascii").splitlines())
    if fields.get("version") != "0":
        raise ValueError(f"partition.metadata has version {fields.get('version')}, not 0")
    return TopicId(uuid_from_text(fields["topic_id"]))


def encode_clean_shutdown(broker_epoch: int) -> bytes:
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def decode_clean_shutdown(content: bytes) -> int:
    """The epoch of the broker that stopped cleanly, or -1 when the marker does not say."""
    try:
        return int(json.loads(content)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return -1


def read_checkpoint(disk: Disk, path: str, decode: Callable[[bytes], T]) -> T | None:
    """None when the file is absent or cannot be parsed."""
    try:
        return decode(disk.read(path))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError) as broken:
        story.warning("ignoring %s: %s", path, broken)
        return None


def _encode(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "".join(f"{line}\n" for line in ["0", str(len(entries)), *entries]).encode()


def _decode(content: bytes, parse: Callable[[list[str]], T]) -> list[T]:
    lines = content.decode("utf-8").splitlines()
    if len(lines) < 2 or lines[0] != "0":
        raise ValueError("not a checkpoint of version 0")
    if int(lines[1]) != len(lines) - 2:
        raise ValueError(f"the header says {lines[1]} entries, the file has {len(lines) - 2}")
    return [parse(line.split()) for line in lines[2:]]


def _offset_line(words: list[str]) -> tuple[TopicPartition, int]:
    topic, partition, offset = words
    return TopicPartition(topic, int(partition)), int(offset)


def _topic_id_line(words: list[str]) -> tuple[TopicPartition, TopicId]:
    topic, partition, topic_id = words
    return TopicPartition(topic, int(partition)), TopicId(uuid_from_text(topic_id))


def _epoch_line(words: list[str]) -> tuple[int, int]:
    epoch, start_offset = words
    return int(epoch), int(start_offset)
