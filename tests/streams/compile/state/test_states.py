"""States of a key against what Spark's would do, in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel
from pyspark.sql import types as T

from odradek.pipeline.formats.schemas import struct_of
from odradek.streams.compile.state.folded_values import FoldedValues
from odradek.streams.compile.state.states import MapState
from odradek.streams.compile.state.values import ValueCodec


class Store(dict):
    """Spark's MapState: tuples of one column."""

    written = 0

    def getValue(self, key):  # noqa: N802
        return self.get(key)

    def updateValue(self, key, value):  # noqa: N802
        self.written += 1
        self[key] = value

    def removeKey(self, key):  # noqa: N802
        del self[key]

    def iterator(self):
        return iter(list(self.items()))


@pytest.fixture
def store() -> Store:
    return Store({("a",): ([1, 2],), ("b",): ([3],), ("c",): ([4],)})


def lists(store: Store) -> MapState[str, list[int]]:
    return MapState(store, ValueCodec(str, "lists"), ValueCodec(list[int], "lists"))


def test_a_value_of_a_map_may_be_changed_in_place(store):
    state = lists(store)
    state["a"].append(7)
    assert state["a"] == [1, 2, 7]
    for key, value in state.items():
        if key == "c":
            value.clear()
    state["d"] = []
    state["d"].append(8)
    state.save()
    assert store == {("a",): ([1, 2, 7],), ("b",): ([3],), ("c",): ([],), ("d",): ([8],)}
    assert store.written == 3, "what was only read is not written"


def test_what_a_row_did_to_a_map_can_be_undone(store):
    state = lists(store)
    del state["b"]
    state["a"].append(7)
    state.settle(state.news())
    state["a"].append(8)
    state["c"].append(8)
    del state["c"]
    state["b"] = [9]
    state.undo()
    assert dict(state) == {"a": [1, 2, 7], "c": [4]}
    state.save()
    assert store == {("a",): ([1, 2, 7],), ("c",): ([4],)}


@dataclass
class Stop:
    place: str
    minutes: int


@dataclass
class Trip:
    last: Stop | None = None
    stops: list[Stop] = field(default_factory=list)


class Total(BaseModel):
    n: int = 0
    names: list[str] = []


STOP = Stop("Bonn", 5)


@pytest.mark.parametrize(
    ("schema", "initial", "aggregate"),
    [
        (Trip, Trip(), Trip(STOP, [STOP])),
        (Total, Total(), Total(n=2, names=["a"])),
        (struct_of(Total), {}, {"n": 2, "names": ["a"]}),
        (struct_of(Total), (0, []), (2, ["a"])),
        (T.StructType([T.StructField("all", T.ArrayType(T.LongType()))]), [0], [0, 7]),
        (T.StructType([T.StructField("n", T.LongType())]), 0, 5),
        (T.StructType([T.StructField("n", T.LongType())]), {"n": 0}, {"n": 5}),
    ],
)
def test_an_aggregate_comes_back_as_what_it_was(schema: Any, initial: Any, aggregate: Any):
    result = struct_of(schema)
    values = FoldedValues(initial, result)
    stored = result.fromInternal(result.toInternal(values.storable(aggregate)))
    assert values.revived(stored) == aggregate
