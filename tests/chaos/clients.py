"""The clients of a run, a process each: idempotent writers, readers of assigned partitions, members of groups.

Each writes every answer to its diary before it acts on it. SIGTERM asks it to finish, SIGKILL is a fault.
"""

from __future__ import annotations

import itertools
import random
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from chaos.history import Diary, identity_of, value_of

UNDER_WAY_MAX = 4000
FINISH_S = 180
REQUEST_S = 10.0
FIRST = 0
# Positions in shared memory: a process's number of records, and the time of its last acknowledgement.
RECORDS, LAST_MS = 0, 1
# Answers that say for certain that nothing was committed.
REFUSED = {"ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS", "_STATE", "_NO_OFFSET"}
POSITION_LOST = {"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE", "_LOG_TRUNCATION"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    who: str
    bootstrap: str
    # Partitions by topic.
    topics: Mapping[str, int]
    diaries: Path
    began: float
    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    per_second: int = 0
    group: str = ""


class Told:
    """Whether SIGTERM has come."""

    def __init__(self) -> None:
        self.to_finish = False
        signal.signal(signal.SIGTERM, self._finish)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _finish(self, *_: object) -> None:
        self.to_finish = True


def quiet(task: Task) -> dict[str, Any]:
    return {
        "bootstrap.servers": task.bootstrap,
        "client.id": task.who,
        "log_level": 0,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
        "topic.metadata.refresh.interval.ms": 5000,
        "socket.timeout.ms": 10_000,
        **task.settings,
    }


class Writer:
    def __init__(self, task: Task, seen: Any) -> None:
        self._task = task
        self._seen = seen
        self._diary = Diary(task.diaries, task.who, task.began)
        self._places = [(topic, index) for topic, count in task.topics.items() for index in range(count)]
        self._acked: dict[str, list[tuple[int, int]]] = {}
        self._failed: dict[tuple[str, str], list[int]] = {}
        self._under_way = 0
        self._number = 0
        self._producer = self._new_producer()

    def run(self, told: Told) -> None:
        began, sent = time.monotonic(), 0
        while not told.to_finish:
            due = int((time.monotonic() - began) * self._task.per_second) - sent
            for _ in range(min(due, UNDER_WAY_MAX - self._under_way)):
                self._send()
            sent += max(due, 0)  # records that did not fit are not sent later
            self._producer.poll(0.02)
            self._note()
        deadline = time.monotonic() + FINISH_S
        while len(self._producer) and time.monotonic() < deadline:
            self._producer.poll(0.2)
            self._note()

    def give_up(self) -> None:
        """Records that are still under way may be stored or not."""
        self._producer.purge()
        with suppress(KafkaException):
            self._producer.flush(10)
        self._note()

    def _new_producer(self) -> Producer:
        return Producer(
            {
                **quiet(self._task),
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "retry.backoff.ms": 50,
                "retry.backoff.max.ms": 500,
                "error_cb": self._trouble,
            }
        )

    def _send(self) -> None:
        topic, index = self._places[self._number % len(self._places)]
        value = value_of(self._task.who, self._number)
        self._producer.produce(topic, value, partition=index, on_delivery=self._delivered)
        self._number += 1
        self._under_way += 1

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self._under_way -= 1
        place = f"{message.topic()}-{message.partition()}"
        number = int(message.value().split(b":")[1])
        if error is None:
            offset = message.offset()
            self._acked.setdefault(place, []).append((-1 if offset is None else offset, number))
        else:
            self._failed.setdefault((place, error.name()), []).append(number)

    def _note(self) -> None:
        for place, records in self._acked.items():
            self._diary.note("acked", place=place, records=records)
            self._seen[RECORDS] += len(records)
            self._seen[LAST_MS] = int(self._diary.now() * 1000)
        self._acked.clear()
        for (place, why), numbers in self._failed.items():
            self._diary.note("failed", place=place, numbers=numbers, why=why)
        self._failed.clear()

    def _trouble(self, error: KafkaError) -> None:
        if error.fatal():
            self._diary.note("fatal", code=error.name(), why=error.str())


class Reader:
    """Reads its assigned partitions from the beginning; now and then it goes back and reads some records again."""

    def __init__(self, task: Task, seen: Any) -> None:
        self._task = task
        self._seen = seen
        self._diary = Diary(task.diaries, task.who, task.began)
        self._consumer = Consumer({**quiet(task), **_READING, "group.id": f"nobody-{task.who}", **self._more()})
        # By place: the next offset to read.
        self._positions: dict[tuple[str, int], int] = {}
        self._assignment = 0

    def run(self) -> None:
        told = Told()
        rng = random.Random(self._task.seed)
        self._begin(dict.fromkeys(self._places(), FIRST))
        again = time.monotonic() + rng.uniform(5, 25)
        while not told.to_finish:
            self._poll()
            if time.monotonic() > again:
                self._begin({place: rng.randint(max(0, at - 5000), at) for place, at in self._positions.items()})
                again = time.monotonic() + rng.uniform(5, 25)
        self._consumer.close()

    def read_until(self, ends: Mapping[tuple[str, int], int], within_s: float) -> dict[tuple[str, int], int]:
        """Reads everything once. Returns what is left when time is up."""
        self._begin(dict.fromkeys(ends, FIRST))
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            self._poll()
            if all(self._positions[place] >= end for place, end in ends.items()):
                break
        self._consumer.close()
        return {place: end for place, end in ends.items() if self._positions[place] < end}

    def _more(self) -> dict[str, Any]:
        return {}

    def _places(self) -> list[tuple[str, int]]:
        return [(topic, index) for topic, count in self._task.topics.items() for index in range(count)]

    def _begin(self, positions: dict[tuple[str, int], int]) -> None:
        self._assignment += 1
        self._positions = positions
        for (topic, index), at in positions.items():
            self._diary.note("assigned", place=f"{topic}-{index}", assignment=self._assignment, at=at)
        self._consumer.assign([TopicPartition(topic, index, at) for (topic, index), at in positions.items()])

    def _poll(self) -> None:
        """Writes the polled records to the diary as runs of consecutive offsets."""
        runs: list[tuple[tuple[str, int], int, list[str]]] = []
        open_run: dict[tuple[str, int], list[str]] = {}
        lost: dict[tuple[str, int], None] = {}
        for message in self._consumer.consume(2000, 0.2):
            if message.error() is not None:
                if message.error().name() in POSITION_LOST:
                    place = (message.topic(), message.partition())
                    self._diary.note("lost", place=f"{place[0]}-{place[1]}", why=message.error().str())
                    lost[place] = None
                continue
            place, offset = (message.topic(), message.partition()), message.offset()
            identity = identity_of(message.value())
            if identity is None:
                self._diary.note("damaged", place=f"{place[0]}-{place[1]}", at=offset)
            values = open_run.get(place)
            if values is None or self._positions.get(place) != offset:
                values = open_run[place] = []
                runs.append((place, offset, values))
            values.append(identity or "?")
            self._positions[place] = offset + 1
        for (topic, index), at, values in runs:
            self._diary.note("polled", place=f"{topic}-{index}", assignment=self._assignment, at=at, values=values)
            self._seen[RECORDS] += len(values)
        if lost:
            self._begin({place: FIRST if place in lost else at for place, at in self._positions.items()})


class Member(Reader):
    """Reads the partitions that its group assigns, from the group's position, and commits its progress."""

    def run(self) -> None:
        told = Told()
        rng = random.Random(self._task.seed)
        self._commits = 0
        self._told = told
        # The committed offsets of the assigned partitions, as far as this member knows.
        self._known: dict[tuple[str, int], int] = {}
        self._consumer.subscribe(
            list(self._task.topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._taken_away
        )
        due = time.monotonic() + 1
        while not told.to_finish:
            self._poll()
            if time.monotonic() > due:
                self._commit(list(self._positions))
                due = time.monotonic() + rng.uniform(0.3, 1.5)
        self._consumer.close()

    def _more(self) -> dict[str, Any]:
        return {"group.id": self._task.group, "session.timeout.ms": 6000, "heartbeat.interval.ms": 1000}

    def _assigned(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._assignment += 1
        answers = self._committed(consumer, partitions)
        for answer in answers:
            place = (answer.topic, answer.partition)
            at = answer.offset if answer.offset >= 0 else FIRST
            self._positions[place] = self._known[place] = at
            self._diary.note("assigned", place=f"{place[0]}-{place[1]}", assignment=self._assignment, at=at)
        begin = consumer.incremental_assign if self._is_cooperative else consumer.assign
        begin([TopicPartition(each.topic, each.partition, max(each.offset, FIRST)) for each in answers])

    def _committed(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        while not self._told.to_finish:
            began = self._diary.now()
            try:
                answers = consumer.committed(list(partitions), timeout=REQUEST_S)
            except KafkaException:
                continue
            if any(answer.error for answer in answers):
                continue
            for answer in answers:
                self._diary.note(
                    "fetched",
                    place=f"{answer.topic}-{answer.partition}",
                    group=self._task.group,
                    began=began,
                    offset=max(answer.offset, -1),
                )
            return answers
        return []

    def _revoked(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        places = [(each.topic, each.partition) for each in partitions]
        self._commit([place for place in places if place in self._positions])
        self._taken_away(consumer, partitions)

    def _taken_away(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        for each in partitions:
            self._positions.pop((each.topic, each.partition), None)
        if self._is_cooperative:
            consumer.incremental_unassign(list(partitions))
        else:
            consumer.unassign()

    def _commit(self, places: list[tuple[str, int]]) -> None:
        wanted = {place: self._positions[place] for place in places if self._positions[place] != self._known[place]}
        if not wanted:
            return
        names: dict[tuple[str, int], str] = {}
        for (topic, index), offset in wanted.items():
            self._commits += 1
            names[topic, index] = commit = f"{self._task.who}/{self._commits}"
            self._diary.note(
                "committing", place=f"{topic}-{index}", group=self._task.group, commit=commit, offset=offset
            )
        offsets = [TopicPartition(topic, index, offset) for (topic, index), offset in wanted.items()]
        try:
            answers = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as refused:
            error = refused.args[0]
            if error.name() in REFUSED:
                for commit in names.values():
                    self._diary.note("uncommitted", commit=commit, why=error.name())
            return
        for answer in answers:
            if answer.error is None:
                place = (answer.topic, answer.partition)
                self._diary.note("committed", commit=names[place])
                self._known[place] = wanted[place]

    @property
    def _is_cooperative(self) -> bool:
        return "cooperative" in self._task.settings["partition.assignment.strategy"]


_READING: dict[str, Any] = {
    "enable.auto.commit": False,
    # A position that does not exist is an anomaly, so the client must not reset it.
    "auto.offset.reset": "error",
    "check.crcs": True,
    "fetch.wait.max.ms": 200,
    "fetch.error.backoff.ms": 100,
}


def write(task: Task, seen: Any) -> None:
    """After a fatal error a producer is replaced by a new one, with another name."""
    told = Told()
    who = task.who
    for successor in itertools.count(2):
        writer = Writer(task, seen)
        try:
            writer.run(told)
        except KafkaException as broken:
            if not broken.args[0].fatal():
                raise
        else:
            return
        finally:
            writer.give_up()
        task = replace(task, who=f"{who}-{successor}")


def read(task: Task, seen: Any) -> None:
    Reader(task, seen).run()


def take_part(task: Task, seen: Any) -> None:
    Member(task, seen).run()
