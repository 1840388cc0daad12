"""Offsets of a query, and their JSON: `{"topic":{"0":23}}`, the format of Spark's Kafka connector, also in checkpoints.

Spark compares offsets as JSON text, so the order of keys is part of the value: topics by name, partitions by number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from odradek.spark.errors import RefusedOption


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


MARK = "@"
Offsets = dict[TopicPartition, int]
OffsetJson = dict[str, Any]


class Edge(IntEnum):
    """The two offsets with names. The numbers are the same in the Kafka protocol and in the JSON."""

    LATEST = -1
    EARLIEST = -2


def to_json(offsets: Mapping[TopicPartition, int]) -> OffsetJson:
    by_topic: OffsetJson = {}
    for place in sorted(offsets):
        by_topic.setdefault(place.topic, {})[str(place.partition)] = offsets[place]
    return by_topic


def from_json(by_topic: Mapping[str, Any]) -> Offsets:
    """The offsets, without the marks, such as `"@cut":1700000000000`."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in by_topic.items()
        if not topic.startswith(MARK)
        for partition, offset in partitions.items()
    }


def names(places: Iterable[TopicPartition]) -> str:
    return ", ".join(str(place) for place in sorted(places))


def parse_partitions(option: str, text: str) -> frozenset[TopicPartition]:
    try:
        by_topic = json.loads(text)
        found = frozenset(TopicPartition(topic, _whole(number)) for topic in by_topic for number in by_topic[topic])
    except (ValueError, TypeError, KeyError) as problem:
        raise RefusedOption(
            f'{option}: expected partitions like {{"topicA":[0,1],"topicB":[0,1]}}, got {text}'
        ) from problem
    if not found:
        raise RefusedOption(f"{option}: {text} names no partition")
    return found


def parse_offsets(option: str, text: str) -> Offsets:
    offsets = _parse_numbers(
        option, text, 'earliest, latest or offsets like {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
    )
    for place, offset in offsets.items():
        if offset < Edge.EARLIEST:
            raise RefusedOption(
                f"{option}: {offset} is not an offset of {place}; use 0 or more, -1 for latest or -2 for earliest"
            )
    return offsets


def parse_timestamps(option: str, text: str) -> Offsets:
    return _parse_numbers(option, text, 'timestamps in ms like {"topicA":{"0":1700000000000,"1":1700000000000}}')


def _parse_numbers(option: str, text: str, expected: str) -> Offsets:
    try:
        by_topic = json.loads(text)
        return {
            TopicPartition(topic, int(partition)): _whole(number)
            for topic, partitions in by_topic.items()
            for partition, number in partitions.items()
        }
    except (ValueError, TypeError, AttributeError) as problem:
        raise RefusedOption(f"{option}: expected {expected}, got {text}") from problem


def _whole(number: object) -> int:
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"{number!r} is not a whole number")
    return number
