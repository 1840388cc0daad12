"""The topic `connect-offsets`: how far each partition of a source was read, in Kafka Connect's format.

A key is `["connector",{partition}]`, a value the offset as an object; a tombstone forgets the partition.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from odradek.connect.records import Offset, Partition
from odradek.connect.storage.topic_log import Entry


def partition_id(partition: Partition) -> str:
    """A text that is equal for equal partitions, whatever the order of their keys."""
    return json.dumps(partition, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@dataclass(slots=True)
class OffsetState:
    """The newest offset of each partition of each connector."""

    _known: dict[str, dict[str, tuple[Partition, Offset]]] = field(default_factory=dict)

    def apply(self, entry: Entry) -> None:
        try:
            name, partition = json.loads(entry.key)
            offset = None if entry.value is None else json.loads(entry.value)
        except ValueError:
            return  # a record of another program
        if not isinstance(partition, dict) or not isinstance(name, str):
            return
        if isinstance(offset, dict):
            self._known.setdefault(name, {})[partition_id(partition)] = (partition, offset)
        elif offset is None:
            self._known.get(name, {}).pop(partition_id(partition), None)

    def of(self, connector: str) -> list[tuple[Partition, Offset]]:
        return list(self._known.get(connector, {}).values())

    def at(self, connector: str, partition: Partition) -> Offset | None:
        found = self._known.get(connector, {}).get(partition_id(partition))
        return None if found is None else found[1]


def offset_entries(
    connector: str, offsets: Iterable[tuple[Partition, Offset | None]]
) -> Iterator[tuple[bytes, bytes | None]]:
    for partition, offset in offsets:
        try:
            entry = _json([connector, _sorted(partition)]), None if offset is None else _json(offset)
        except TypeError as wrong:
            raise TypeError(
                f"the partition {dict(partition)!r} and its offset {offset!r} are stored as JSON: {wrong}"
            ) from wrong
        yield entry


def _sorted(partition: Partition) -> Mapping[str, object]:
    """The order of keys must not matter: two spellings would be two keys of the compacted topic."""
    return {key: partition[key] for key in sorted(partition)}


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
