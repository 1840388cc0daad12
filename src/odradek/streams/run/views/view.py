"""A view: the newest value of each key of a changelog topic, kept in a local store and read in microseconds.

    with View("127.0.0.1:9092", "trucking-alerts-changelog", Path("alerts.db")) as view:
        view.wait_caught_up()
        view.row("driver-11")

A reader sees, of each partition, exactly the changes before its position, never half of a commit: who knows the offset
of a write can `wait_for` it and read it. Keys that differ in partition are not ordered among each other.
A topic whose number of partitions grew puts keys elsewhere; delete and fill it again, as with Kafka Streams' tables.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError

from odradek.client.admin import Admin, UnknownTopic
from odradek.client.records import ClientError
from odradek.streams.run.views.follower import Follower, ViewState
from odradek.streams.run.views.store import Store

REQUEST_TIMEOUT_S = 5.0
Key = bytes | str | Mapping[str, Any] | tuple[Any, ...]
NO_CONFIG: Mapping[str, str] = MappingProxyType({})


class NotCaughtUp(TimeoutError):
    """The view did not get there in time; the message says how far it is and what keeps it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewStatus:
    name: str
    topic: str
    state: ViewState
    rows: int
    bytes_on_disk: int
    positions: Mapping[int, int]
    problem: str | None


class View:
    def __init__(
        self,
        bootstrap: str,
        topic: str,
        store_path: Path,
        *,
        name: str | None = None,
        config: Mapping[str, str] = NO_CONFIG,
    ) -> None:
        """`config`: of the Kafka client, in librdkafka's names. A topic that is not there yet is waited for."""
        self.name = name or topic
        self.topic = topic
        self._path = store_path
        self._cluster = Admin(bootstrap, config, timeout_s=REQUEST_TIMEOUT_S)
        self._config = {**config, "bootstrap.servers": bootstrap}
        self._store: Store | None = None
        self._follower: Follower | None = None
        self._progress = threading.Condition()

    # --- life

    def start(self) -> None:
        self._store = Store(self._path)
        self._follower = Follower(self._store, self._cluster, self._config, self.topic, self._tell_progress)
        self._follower.start()

    def stop(self) -> None:
        if self._follower is not None and self._store is not None:
            self._follower.stop()
            self._store.close()
            self._store = self._follower = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- reading

    def row(self, key: Key) -> dict[str, Any] | None:
        """The row of a key, from the JSON that `materialize` writes; `get` for topics that have something else."""
        value = self.get(key)
        return None if value is None else json.loads(value)

    def rows(self, prefix: bytes | str = b"") -> Iterator[dict[str, Any]]:
        """In the order of their keys' bytes."""
        return (json.loads(value) for _, value in self.scan(prefix))

    def get(self, key: Key) -> bytes | None:
        """The value of a key as it is in the topic.

        The key is its text or bytes; of several columns a dict of them, or a tuple in the order of the key.
        """
        return self._running()[0].get(self.key_bytes(key))

    def key_bytes(self, key: Key) -> bytes:
        """The key as it is in the topic. Which columns it has, and in which order, the keys in the view show."""
        if isinstance(key, bytes | str):
            return _bytes(key)
        names = self._key_columns()
        if names is None:  # no row to find
            return _as_json(key if isinstance(key, Mapping) else dict(enumerate(key)))
        fits = set(key) == set(names) if isinstance(key, Mapping) else len(key) == len(names)
        if not fits:
            raise ValueError(f"{key!r} is no key of the view {self.name!r}: the key is {', '.join(names)}")
        values = [key[name] for name in names] if isinstance(key, Mapping) else key
        return _as_json(dict(zip(names, values, strict=True)))

    def _key_columns(self) -> list[str] | None:
        """The key columns of a view whose key has several columns. None while the view is empty."""
        for key, _ in self._running()[0].scan(b"{", None):
            try:
                columns = json.loads(key)
            except ValueError:
                continue
            return list(columns)
        return None

    def scan(
        self, prefix: bytes | str = b"", *, after: Key | None = None, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values in the order of the keys' bytes; `after` goes on behind a key that was seen."""
        start = None if after is None else self.key_bytes(after)
        return islice(self._running()[0].scan(_bytes(prefix), start), limit)

    def count(self) -> int:
        """How many rows there are; walks through all of them."""
        return self._running()[0].count()

    # --- how far it is

    def positions(self) -> dict[int, int]:
        """The next offset of each partition."""
        return self._running()[0].positions()

    @property
    def following(self) -> bool:
        """Whether it has reached the end of its topic once since it started. Sends no request."""
        return self._running()[1].state == "following"

    def caught_up(self) -> bool:
        """Whether all that is in the topic now is in the view. Asks the cluster."""
        try:
            return self._is_of_this_topic() and self._has_passed(self._cluster.end_offsets(self.topic))
        except UnknownTopic:
            return False

    def wait_caught_up(self, timeout_s: float = 60.0) -> None:
        """Until everything that is in the topic at the time of this call can be read. A missing topic is waited for."""
        deadline = time.monotonic() + timeout_s
        self._wait_for(self._ends_of_this_topic(deadline), deadline)

    def wait_for(self, positions: Mapping[int, int], timeout_s: float = 60.0) -> None:
        """Until all records before these offsets can be read, e.g. {record.partition: record.offset + 1}."""
        self._wait_for(positions, time.monotonic() + timeout_s)

    @property
    def changes_read(self) -> int:
        """Offsets of its topic, in all partitions."""
        return sum(self._running()[0].positions().values())

    @property
    def bytes_on_disk(self) -> int:
        return self._path.stat().st_size

    def status(self) -> ViewStatus:
        store, follower = self._running()
        return ViewStatus(
            name=self.name,
            topic=self.topic,
            state=follower.state,
            rows=store.count(),
            bytes_on_disk=self.bytes_on_disk,
            positions=store.positions(),
            problem=follower.problem,
        )

    def _ends_of_this_topic(self, deadline: float) -> Mapping[int, int]:
        while True:
            try:
                self._wait(self._is_of_this_topic, "its topic", deadline)
                return self._cluster.end_offsets(self.topic)
            except ClientError as problem:
                # The time-out of one request is shorter than that of the caller: retry on a slow cluster.
                late = problem.error.code() == KafkaError._TIMED_OUT  # noqa: SLF001 librdkafka names its own codes so
                if not late or time.monotonic() > deadline:
                    raise

    def _wait_for(self, positions: Mapping[int, int], deadline: float) -> None:
        self._wait(lambda: self._has_passed(positions), f"offsets {dict(positions)}", deadline)

    def _wait(self, condition: Callable[[], bool], what: str, deadline: float) -> None:
        with self._progress:
            while not condition():
                if not self._progress.wait(deadline - time.monotonic()) and not condition():
                    store, follower = self._running()
                    keeps = f"; {follower.problem}" if follower.problem else ""
                    raise NotCaughtUp(
                        f"view {self.name!r} waited for {what} and is {follower.state} at {store.positions()}{keeps}"
                    )

    def _has_passed(self, positions: Mapping[int, int]) -> bool:
        mine = self.positions()
        return all(mine.get(partition, 0) >= offset for partition, offset in positions.items())

    def _is_of_this_topic(self) -> bool:
        """Not so for a moment after the topic was deleted and created again."""
        store, follower = self._running()
        return follower.state == "following" and store.source() == (self.topic, self._cluster.topic_id(self.topic))

    def _tell_progress(self) -> None:
        with self._progress:
            self._progress.notify_all()

    def _running(self) -> tuple[Store, Follower]:
        if self._store is None or self._follower is None:
            raise RuntimeError(f"view {self.name!r} is not running; use it inside `with View(…) as view:`")
        return self._store, self._follower


def _as_json(columns: Mapping[Any, Any]) -> bytes:
    """As Spark writes it."""
    return json.dumps(columns, separators=(",", ":"), ensure_ascii=False).encode()


def _bytes(key: bytes | str) -> bytes:
    return key.encode() if isinstance(key, str) else key
