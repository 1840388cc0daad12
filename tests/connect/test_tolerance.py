"""Bad records: isolated by dividing the batch, retried, made dead letters; an outage blames no record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from odradek.connect.common_options import CommonOptions
from odradek.connect.conversion import CannotConvert, Conversion
from odradek.connect.interface import BadRecord, RetriableError
from odradek.connect.records import Record, TopicPlace
from odradek.connect.tasks.dead_letters import dead_letter
from odradek.connect.tasks.tolerance import (
    Failure,
    RawRecord,
    RecordFailed,
    Stage,
    Tolerance,
    stage_of,
    write_or_divide,
)


def options(**more: object) -> CommonOptions:
    return CommonOptions(name="out", connector_class="x", **more)


def batch(count: int) -> list[Record]:
    return [Record(topic="t", value=n, place=TopicPlace("t", 0, n)) for n in range(count)]


class Target:
    """Refuses some values, and counts how often it is called."""

    def __init__(self, *bad: int, names_them: bool = False) -> None:
        self.bad, self.names_them = set(bad), names_them
        self.written: list[object] = []
        self.calls = 0

    def write(self, records: Sequence[Record]) -> None:
        self.calls += 1
        for record in records:
            if record.value in self.bad:
                raise BadRecord(record, "no") if self.names_them else ValueError(f"cannot write {record.value}")
        self.written += [record.value for record in records]


def test_without_tolerance_the_first_error_fails_the_batch() -> None:
    with pytest.raises(ValueError, match="cannot write 3"):
        write_or_divide(Target(3).write, batch(8), Tolerance(options()))


@pytest.mark.parametrize("names_them", [False, True])
def test_bad_records_are_found_and_all_others_are_written_in_order(names_them: bool) -> None:
    target = Target(3, 700, 999, names_them=names_them)
    failures = write_or_divide(target.write, batch(1000), Tolerance(options(errors_tolerance="all")))
    assert [failure.record.value for failure in failures] == [3, 700, 999]
    assert target.written == [n for n in range(1000) if n not in (3, 700, 999)]
    assert target.calls < 70


def test_a_large_batch_may_have_bad_records_only() -> None:
    target = Target(*range(1500), names_them=True)
    failures = write_or_divide(target.write, batch(1500), Tolerance(options(errors_tolerance="all")))
    assert [failure.record.value for failure in failures] == list(range(1500))


def test_an_outage_is_never_the_fault_of_records() -> None:
    def down(_: Sequence[Record]) -> None:
        raise ConnectionRefusedError("the database is down")

    with pytest.raises(ConnectionRefusedError):
        write_or_divide(down, batch(4), Tolerance(options(errors_tolerance="all")))


def test_a_retriable_error_is_retried_until_the_timeout() -> None:
    now, calls = [0.0], []

    def rest(seconds: float) -> None:
        now[0] += seconds

    def fail_twice() -> str:
        calls.append(now[0])
        if len(calls) < 3:
            raise RetriableError("busy")
        return "done"

    tolerance = Tolerance(options(errors_retry_timeout=10_000), rest=rest, clock=lambda: now[0])
    assert tolerance.attempt(fail_twice) == "done"
    assert calls == pytest.approx([0.0, 0.3, 0.9])
    calls.clear()
    short = Tolerance(options(errors_retry_timeout=100), rest=rest, clock=lambda: now[0])
    with pytest.raises(RetriableError):
        short.attempt(fail_twice)


def test_a_dead_letter_has_the_bytes_that_were_read_and_kafkas_headers() -> None:
    raw = RawRecord("orders", 2, 41, b"k", b"{not json", [("own", b"h")], 7)
    failure = Failure(record=None, stage=Stage.VALUE_CONVERTER, error=ValueError("not JSON"), raw=raw)
    letter = dead_letter(failure, "dlq", "out", 3, context=True)
    told = {name.removeprefix("__connect.errors."): value for name, value in letter.headers}
    assert (letter.topic, letter.key, letter.value, letter.timestamp_ms) == ("dlq", b"k", b"{not json", 7)
    assert letter.headers[0] == ("own", b"h")
    assert told["topic"] == b"orders"
    assert (told["partition"], told["offset"]) == (b"2", b"41")
    assert (told["connector.name"], told["task.id"]) == (b"out", b"3")
    assert (told["stage"], told["exception.message"]) == (b"VALUE_CONVERTER", b"not JSON")
    assert told["exception.class.name"] == b"builtins.ValueError"
    assert b"ValueError: not JSON" in (told["exception.stacktrace"] or b"")
    assert dead_letter(failure, "dlq", "out", 3, context=False).headers == [("own", b"h")]


def test_a_copy_of_a_bad_record_does_not_name_a_record_of_the_batch() -> None:
    def refuses_a_copy(records: Sequence[Record]) -> None:
        for record in records:
            if record.value == 2:
                raise BadRecord(replace(record), "no")

    failures = write_or_divide(refuses_a_copy, batch(4), Tolerance(options(errors_tolerance="all")))
    assert [failure.record.value for failure in failures] == [2]


def test_a_key_that_cannot_be_converted_has_the_stage_of_keys() -> None:
    conversion = Conversion.of({"key.converter": "integer", "value.converter": "integer"})
    with pytest.raises(CannotConvert) as key:
        conversion.encoded(Record(topic="t", key="text", value=1))
    with pytest.raises(CannotConvert) as value:
        conversion.encoded(Record(topic="t", key=1, value="text"))
    assert stage_of(key.value, Stage.VALUE_CONVERTER) == Stage.KEY_CONVERTER
    assert stage_of(value.value, Stage.VALUE_CONVERTER) == Stage.VALUE_CONVERTER


def test_without_tolerance_the_error_names_the_record_that_a_sink_refuses() -> None:
    with pytest.raises(
        RecordFailed, match=r"^the record t-0@3: no; with errors.tolerance=all such records are skipped$"
    ):
        write_or_divide(Target(3, names_them=True).write, batch(8), Tolerance(options()))


def test_without_tolerance_the_error_names_the_record_that_a_converter_cannot_read() -> None:
    raw = RawRecord("t", 2, 17, None, b"{", [], None)
    failure = Failure(record=None, stage=Stage.VALUE_CONVERTER, error=CannotConvert("not JSON"), raw=raw)
    with pytest.raises(RecordFailed, match=r"^the record t-2@17: not JSON") as failed:
        Tolerance(options()).bad(failure)
    assert isinstance(failed.value.__cause__, CannotConvert)
