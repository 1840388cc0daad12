"""`mirror`: the records of another cluster's topics, partition for partition, exactly once and byte for byte."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar

from confluent_kafka import Message

from odradek.connect.connectors.mirror.config import MirrorSourceConfig
from odradek.connect.connectors.mirror.intake import Intake, Place
from odradek.connect.connectors.mirror.syncs import SyncWriter
from odradek.connect.connectors.mirror.topics import MirroredTopics, create_compacted, source_admin, target_admin
from odradek.connect.interface import Source
from odradek.connect.records import BYTES, Header, Offset, Partition, Record, SourcePlace

BYTES_OR_NULL = BYTES.or_null()
# After so many bytes the other partitions have their turn.
TURN_BYTES = 8 << 20
ENDS_S = 0.2
COMMITTED = "read_committed"


class MirrorSource(Source[MirrorSourceConfig]):
    """Each partition of the source cluster is a partition of this connector, with MirrorMaker 2's offsets: `offset` is
    that of the last record that was mirrored. Only committed records are mirrored, unless the consumer's
    isolation.level says otherwise.
    """

    Config: ClassVar[type] = MirrorSourceConfig
    converter: ClassVar[str] = "bytes"

    def __init__(self, config: MirrorSourceConfig, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(config)
        self._clock = clock
        self._clients = config.consumer_clients
        self._admin = source_admin(config)
        self._topics = MirroredTopics(config, self._admin, target_admin(config))
        self._found: dict[str, int] | None = None
        self._refresh_s = self._sync_s = 0.0
        self._ends: dict[Place, int] = {}
        self._ends_s = 0.0
        self._intake: Intake | None = None
        self._syncs: SyncWriter | None = None

    # --- on the driver

    def partitions(self) -> Sequence[Partition]:
        now, config = self._clock(), self.config
        if self._found is None or (config.refresh_topics_enabled and now >= self._refresh_s):
            if self._found is None and config.emit_offset_syncs_enabled:
                self._create_syncs_topic()
            found = self._topics.found()
            self._topics.ensure(found)
            self._found, self._refresh_s = found, now + config.refresh_topics_interval_seconds
        if config.sync_topic_configs_enabled and now >= self._sync_s:
            self._topics.sync_configs(self._found)
            self._sync_s = now + config.sync_topic_configs_interval_seconds
        return [self._partition(topic, index) for topic, count in self._found.items() for index in range(count)]

    def _create_syncs_topic(self) -> None:
        config = self.config
        is_in_source = config.offset_syncs_topic_location == "source"
        admin = self._admin if is_in_source else target_admin(config)
        create_compacted(admin, config.offset_syncs_topic, config.offset_syncs_topic_replication_factor)

    def _partition(self, topic: str, index: int) -> Partition:
        return {"cluster": self.config.source_cluster_alias, "topic": topic, "partition": index}

    def has_news(self, partition: Partition, offset: Offset | None) -> bool:
        """Also if the partition became shorter: it was created again, and is read from its beginning."""
        now = self._clock()
        if now - self._ends_s > ENDS_S:
            places = [(topic, index) for topic, count in (self._found or {}).items() for index in range(count)]
            only_committed = self._clients.get("isolation.level", COMMITTED) == COMMITTED
            self._ends, self._ends_s = self._admin.ends_of(places, only_committed=only_committed), now
        place = _place(partition)
        return self._ends.get(place, _next(offset)) != _next(offset)

    # --- in a task

    def read(self, partition: Partition, offset: Offset | None) -> Iterator[list[Record] | SourcePlace | None]:
        place, position = _place(partition), _next(offset)
        intake = self._begun()
        intake.begin(place, position)
        remote = self.config.names.remote(place[0])
        try:
            while True:
                for messages in _turns(intake.taken(place)):
                    yield [
                        _record(each, remote, SourcePlace(partition, {"offset": each.offset()})) for each in messages
                    ]
                    position = messages[-1].offset() + 1
                    yield None
                end = intake.end_reached(place)
                if end is not None and end != position:
                    # Behind the last record there are only markers of transactions, or the partition is new.
                    position = end
                    yield SourcePlace(partition, {"offset": end - 1})
                if end is not None and self._syncs is not None:
                    self._syncs.quiet(place)
                yield None
        finally:
            intake.end(place)

    def is_connected(self) -> bool:
        return self._intake is None or self._intake.is_answered()

    def tracked(self, records: Sequence[Record]) -> Sequence[Record]:
        syncs = self._syncs
        if syncs is None:
            return ()
        last = {_place_of(record): record for record in records}
        return [
            record
            for record in records
            if syncs.wants(_place_of(record), _offset_of(record), is_last=last[_place_of(record)] is record)
        ]

    def stored(self, record: Record, offset: int) -> None:
        if self._syncs is not None:
            self._syncs.delivered(_place_of(record), _offset_of(record), offset)

    def committed(self, partition: Partition, offset: Offset) -> None:  # noqa: ARG002
        if self._syncs is not None:
            self._syncs.committed(_place(partition))

    def close(self) -> None:
        if self._intake is not None:
            self._intake.close()
        if self._syncs is not None:
            self._syncs.close()

    def _begun(self) -> Intake:
        config = self.config
        if self._intake is None:
            bootstrap = config.source_cluster_bootstrap_servers
            self._intake = Intake(bootstrap, self._clients, config.source_cluster_alias)
            if config.emit_offset_syncs_enabled:
                clients, topic = config.offset_syncs_clients, config.offset_syncs_topic
                self._syncs = SyncWriter(clients, topic, config.offset_lag_max)
        return self._intake


def _turns(messages: Iterable[Message]) -> Iterator[list[Message]]:
    turn: list[Message] = []
    size = 0
    for message in messages:
        turn.append(message)
        size += len(message)
        if size > TURN_BYTES:
            yield turn
            turn, size = [], 0
    if turn:
        yield turn


def _record(message: Message, topic: str, place: SourcePlace) -> Record:
    headers = message.headers()
    kind, timestamp_ms = message.timestamp()
    return Record(
        topic=topic,
        key=message.key(),
        value=message.value(),
        key_schema=BYTES_OR_NULL,
        value_schema=BYTES_OR_NULL,
        headers=tuple(Header(name, data, BYTES_OR_NULL) for name, data in headers) if headers else (),
        timestamp_ms=timestamp_ms if kind else None,
        partition=message.partition(),
        place=place,
    )


def _place(partition: Partition) -> Place:
    return str(partition["topic"]), int(str(partition["partition"]))


def _place_of(record: Record) -> Place:
    place = record.place
    return _place(place.partition) if isinstance(place, SourcePlace) else ("", 0)


def _offset_of(record: Record) -> int:
    place = record.place
    return int(str(place.offset["offset"])) if isinstance(place, SourcePlace) else 0


def _next(offset: Offset | None) -> int:
    """Where to read on. The offset is that of the last record, as in MirrorMaker 2."""
    return int(str(offset["offset"])) + 1 if offset else 0
