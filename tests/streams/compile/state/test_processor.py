"""What fails in a function with state, a row's or a timer's, is a dead letter and leaves no trace in the state."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql import types as T

from odradek.streams.compile.event_time import moment
from odradek.streams.compile.state import ListState, MapState, State, Timers
from odradek.streams.compile.state.parameters import parameters
from odradek.streams.compile.state.processor import Plan, Processor

RECORD = T.StructType(
    [
        T.StructField("key", T.BinaryType()),
        T.StructField("value", T.BinaryType()),
        T.StructField("topic", T.StringType()),
        T.StructField("timestamp", T.TimestampType()),
        T.StructField("headers", T.ArrayType(T.StructType([T.StructField("key", T.StringType())]))),
    ]
)
ROWS = T.StructType(
    [
        T.StructField("speed", T.DoubleType()),
        T.StructField("_time", T.TimestampType()),
        T.StructField("_record", RECORD),
    ]
)
OUT = T.StructType([T.StructField("what", T.StringType())])


class Key:
    """What Spark keeps for one key: a value, a list, a map and timers, in memory."""

    def __init__(self) -> None:
        self.stored: dict[str, Any] = {}
        self.registerTimer: Callable[[int], None] = [].append

    def getValueState(self, name, _schema):  # noqa: N802
        return SimpleNamespace(
            get=lambda: self.stored.get(name),
            update=lambda value: self.stored.update({name: value}),
            clear=lambda: self.stored.pop(name, None),
        )

    def getListState(self, name, _schema):  # noqa: N802
        kept = self.stored.setdefault(name, [])
        return SimpleNamespace(get=lambda: iter(kept), appendList=kept.extend, put=kept.__iadd__, clear=kept.clear)

    def getMapState(self, name, *_schemas):  # noqa: N802
        kept = self.stored.setdefault(name, {})
        return SimpleNamespace(
            getValue=kept.get,
            updateValue=kept.__setitem__,
            removeKey=kept.pop,
            clear=kept.clear,
            iterator=lambda: iter(list(kept.items())),
        )


CLOCK = SimpleNamespace(getCurrentWatermarkInMs=lambda: 0)


def risky(key, rows, total: State[float], speeds: ListState[float], kinds: MapState[str, list[str]], timers: Timers):
    for row in rows:
        kinds.setdefault("all", []).append(str(row.speed))
        speeds.append(row.speed)
        total.value = row.speed if row.speed < 100 else "fast"
        timers.after("5s")
        if row.speed < 0:
            kinds["all"].append(-1)
        yield (f"{total.value} {list(speeds)} {dict(kinds)}",)


def late(key, at: datetime, total: State[float], speeds: ListState[float]):
    yield ("lost",)
    speeds.clear()
    total.value = None
    raise ValueError(f"{key} at {at:%H:%M:%S}")


@pytest.fixture
def key() -> Key:
    return Key()


def processor(
    key: Key, *, keys: tuple[str, ...] = ("driver",), dead_letters: bool = True, ttl_ms: int | None = None
) -> Processor:
    plan = Plan(
        keys=keys,
        function=risky,
        on_timer=late,
        parameters=parameters(risky),
        timer_parameters=parameters(late),
        schema=ROWS,
        out=OUT,
        ttl_ms=ttl_ms,
        clock="event",
        dead_letters=dead_letters,
    )
    made = Processor(plan)
    made.init(key)
    return made


def row(speed: float, at: int) -> Row:
    record = {"key": b"k", "value": b"v", "topic": "rows", "timestamp": moment(at), "headers": []}
    return Row(*ROWS.names)(speed, moment(at), record)


def test_a_value_of_a_wrong_type_is_the_failure_of_its_row(key: Key) -> None:
    rows = [row(1, 1000), row(200.0, 2000), row(-1.0, 3000), row(2.0, 4000)]
    first, fast, negative, second = processor(key).handleInputRows((7,), iter(rows), CLOCK)
    assert first["what"] == "1 [1.0] {'all': ['1']}"
    assert second["what"] == "2.0 [1.0, 2.0] {'all': ['1', '2.0']}"
    assert fast["_error"]["message"] == "state total: 'fast' is no double"
    assert negative["_error"]["message"] == "state kinds[]: -1 is no string"
    assert negative["_record"]["topic"] == "rows"
    assert key.stored == {"total": (2.0,), "speeds": [(1.0,), (2.0,)], "kinds": {("all",): (["1", "2.0"],)}}


def test_a_timer_that_fails_is_a_dead_letter_that_names_its_key(key: Key) -> None:
    made = processor(key, keys=("driver", "truck"))
    list(made.handleInputRows((7, "red"), iter([row(1.5, 1000)]), CLOCK))
    (letter,) = made.handleExpiredTimer((7, "red"), CLOCK, SimpleNamespace(getExpiryTimeInMs=lambda: 6000))
    assert letter["_time"] == moment(6000)
    assert letter["_error"]["exception"] == "ValueError"
    assert letter["_error"]["message"] == "(7, 'red') at 00:00:06"
    assert "in late" in letter["_error"]["stacktrace"]
    assert letter["_record"] == {
        "key": None,
        "value": b'{"driver": 7, "truck": "red"}',
        "topic": None,
        "timestamp": moment(6000),
        "headers": [
            {"key": "__streams.errors.key", "value": b'{"driver": 7, "truck": "red"}'},
            {"key": "__streams.errors.timer", "value": b"1970-01-01T00:00:06.000+00:00"},
        ],
    }
    assert (key.stored["total"], key.stored["speeds"]) == ((1.5,), [(1.5,)])


def test_without_a_place_for_dead_letters_what_fails_is_raised(key: Key) -> None:
    made = processor(key, dead_letters=False)
    with pytest.raises(TypeError, match="state total: 'fast' is no double"):
        list(made.handleInputRows((7,), iter([row(200.0, 2000)]), CLOCK))
    with pytest.raises(ValueError, match="7 at 00:00:06"):
        list(made.handleExpiredTimer((7,), CLOCK, SimpleNamespace(getExpiryTimeInMs=lambda: 6000)))


def test_a_row_that_fails_brings_back_no_state_that_had_outlived_its_time(key: Key) -> None:
    made = processor(key, ttl_ms=5000)
    list(made.handleInputRows((7,), iter([row(1.0, 1000)]), CLOCK))
    failed, good = made.handleInputRows((7,), iter([row(200.0, 9000), row(2.0, 9001)]), CLOCK)
    assert failed["_error"]["message"] == "state total: 'fast' is no double"
    assert good["what"] == "2.0 [2.0] {'all': ['2.0']}"
