"""Batches of a source: which records are written together, and what an error of the source leaves of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from odradek.connect.common_options import SourceOptions
from odradek.connect.conversion import Conversion, Encoded
from odradek.connect.interface import BadRecord, Source
from odradek.connect.records import Offset, Partition, Record, SourcePlace
from odradek.connect.tasks.source_task import Reader, SourceRun
from odradek.connect.tasks.spec import TaskSpec
from odradek.connect.tasks.tolerance import RecordFailed, Tolerance
from odradek.connect.transformation import Transforms


def test_a_batch_ends_only_after_a_record_that_has_a_place() -> None:
    """A delete and its tombstone: written apart, a crash between them would repeat the delete."""
    delete, tombstone = Record(topic="t", key=1, value="d"), Record(topic="t", key=1, place=SourcePlace({}, {"n": 1}))
    other = Record(topic="t", key=2, value="c", place=SourcePlace({}, {"n": 2}))
    reader = Reader({}, None, rest=[delete, tombstone, other])
    assert reader.taken(1) == [delete, tombstone]
    assert reader.taken(1) == [other]
    assert reader.taken(1) == []


@dataclass
class Written:
    records: list[bytes | None] = field(default_factory=list)
    offsets: list[bytes | None] = field(default_factory=list)

    def write(self, records: Sequence[Encoded], _: str, offsets: Iterator[tuple[bytes, bytes | None]]) -> None:
        self.offsets += [value for _, value in offsets]
        self.records += [record.value for record in records]


class NoTopics:
    def ensure(self, topics: set[str]) -> None:
        pass


class Leash:
    stop_for: str | None = None

    def check(self) -> None:
        pass

    def rest(self, seconds: float) -> None:
        pass

    def report(self, _: Mapping[str, object]) -> None:
        pass


class Beating(Source[None]):
    """Has nothing to read for a while, and then a heartbeat."""

    def __init__(self, leash: Leash, *, stays: bool) -> None:
        super().__init__(None)
        self._leash, self._stays = leash, stays

    def stays(self) -> bool:
        return self._stays

    def read(self, partition: Partition, offset: Offset | None) -> Iterator[Record | None]:
        for _ in range(5):
            yield None
        yield number(1)
        self._leash.stop_for = "the test"


class Yielding(Source[None]):
    """What a function returns is read."""

    def __init__(self, read: Callable[[Offset | None], Iterator[object]]) -> None:
        super().__init__(None)
        self._read = read

    def read(self, partition: Partition, offset: Offset | None) -> Iterator[Record]:
        return self._read(offset)


def number(n: int) -> Record:
    return Record(topic="numbers", value=n, place=SourcePlace({"part": 0}, {"n": n}))


@pytest.mark.parametrize("stays", [True, False])
def test_a_source_with_heartbeats_is_not_idle_between_them(stays: bool) -> None:
    leash = Leash()
    target, failed = ran(Beating(leash, stays=stays), leash)
    assert failed is None
    assert target.records == ([b"1"] if stays else [])


def written(read: Callable[[Offset | None], Iterator[object]], **options: object) -> tuple[Written, Exception | None]:
    return ran(Yielding(read), Leash(), **options)


def ran(
    source: Source[None], leash: Leash, *, parts: Sequence[int] = (0,), **options: object
) -> tuple[Written, Exception | None]:
    """What a run has written, and the error that ended it."""
    known = SourceOptions(name="numbers", connector_class="yielding", **options)
    spec = TaskSpec(
        run="run-1", connector="numbers", task=0, given={}, bootstrap="", clients={}, offsets_topic="offsets",
        driver=("", 0), token="", linger_s=0.0,
        partitions=tuple(({"part": part}, None) for part in parts),
    )  # fmt: skip
    target = Written()
    run = SourceRun(
        spec=spec, source=source, conversion=Conversion.of({}), transforms=Transforms({}),
        tolerance=Tolerance(known), writer=target, missing_topics=NoTopics(), leash=leash, poll_interval_s=0.01,
    )  # fmt: skip
    try:
        run.run()
    except Exception as failed:  # noqa: BLE001 (any error is what is asked for)
        return target, failed
    return target, None


def boom(_: Offset | None) -> Iterator[object]:
    yield number(1)
    yield [number(2), number(3)]
    yield Record(topic="numbers", value="belongs to the next one")
    raise OSError("the disk is gone")


def test_the_records_before_an_error_of_the_source_are_written_with_their_offset() -> None:
    target, failed = written(boom)
    assert target.records == [b"1", b"2", b"3"]
    assert target.offsets == [b'{"n":3}']
    assert isinstance(failed, OSError)


class Parts(Source[None]):
    """Each partition is read with its own function."""

    def __init__(self, *reads: Callable[[], Iterator[Record]]) -> None:
        super().__init__(None)
        self._reads = reads

    def read(self, partition: Partition, offset: Offset | None) -> Iterator[Record]:
        return self._reads[partition["part"]]()


def gone() -> Iterator[Record]:
    raise OSError("the disk is gone")


def gone_at_the_first() -> Iterator[Record]:
    yield from gone()


@pytest.mark.parametrize("failing", [gone, gone_at_the_first])
def test_the_records_of_other_partitions_are_written_before_an_error_is_raised(
    failing: Callable[[], Iterator[Record]],
) -> None:
    unread = pytest.fail
    source = Parts(lambda: iter([number(1)]), failing, lambda: unread("read after the error"))
    target, failed = ran(source, Leash(), parts=(0, 1, 2))
    assert target.records == [b"1"]
    assert target.offsets == [b'{"n":1}']
    assert isinstance(failed, OSError)


def refusing(offset: Offset | None) -> Iterator[object]:
    if offset is None:
        yield number(1)
        raise BadRecord(number(2), "line 2 is broken")
    if offset["n"] == 2:
        yield number(3)


def test_a_bad_record_of_a_source_is_named_after_those_before_it_are_written() -> None:
    target, failed = written(refusing)
    assert target.records == [b"1"]
    assert isinstance(failed, RecordFailed)
    assert str(failed) == (
        "the record before {'n': 2} of {'part': 0}: line 2 is broken; "
        "with errors.tolerance=all such records are skipped"
    )


def test_a_bad_record_of_a_source_is_passed_if_errors_are_tolerated() -> None:
    target, failed = written(refusing, errors_tolerance="all")
    assert failed is None
    assert target.records == [b"1", b"3"]
    assert target.offsets[-1] == b'{"n":3}'


@pytest.mark.parametrize(
    ("read", "told"),
    [
        (lambda _: None, "read of a source returned NoneType; it returns an iterator of records"),
        (lambda _: iter([{"n": 1}]), "a source yielded dict; it yields Record, a list of Record, SourcePlace or None"),
        (lambda _: iter([[{"n": 1}]]), "a source yielded list; it yields Record, a list of Record, SourcePlace or"),
        (
            lambda _: iter([Record(topic="t", place=SourcePlace({}, {"at": datetime(2026, 1, 1, tzinfo=UTC)}))]),
            "the partition {} and its offset {'at': datetime.datetime(2026, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)} "
            "are stored as JSON",
        ),
    ],
)
def test_what_a_source_may_not_yield_is_refused_with_what_it_may(read: Callable[..., object], told: str) -> None:
    _, failed = written(read)
    assert isinstance(failed, TypeError)
    assert told in str(failed)


def test_a_source_that_returns_a_list_is_asked_for_news_like_others() -> None:
    source = Yielding(lambda offset: [] if offset else [number(1)])
    assert source.has_news({}, None)
    assert not source.has_news({}, {"n": 1})
