"""Transforms give the results of Kafka's own classes, which transforms.golden.json has. Predicates, and bad options."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from connect.transform_cases import GOLDEN, Case, cases, shown
from odradek.connect.plugins import every_plugin, plugin
from odradek.connect.records import Header, Record
from odradek.connect.transformation import PREDICATES, TRANSFORMS, Transforms
from odradek.connect.validation import validated

DATAGEN = {"name": "gen", "connector.class": "datagen", "topic": "orders"}
RECORDED = dict(json.loads(line) for line in GOLDEN.read_text().splitlines())
CASES = cases()
NOT_A_STRUCT = "Kafka fails for schemas that are not structs"
DECIMALS = "Kafka masks decimals with another scale than their schema has, and its converter refuses them"
# Where ours differs from Kafka, with the reason.
DIFFERENT = {
    "074-SetSchemaMetadata$Value": NOT_A_STRUCT,
    "076-SetSchemaMetadata$Key": NOT_A_STRUCT,
    "081-Flatten$Value": "in Kafka, a null has a schema that does not allow null",
    "117-MaskField$Value": DECIMALS,
    "118-MaskField$Value": DECIMALS,
    "501-InsertHeader": "Kafka reads 1,2 as the number 1",
}


def applied(case: Case) -> Any:
    given = {"transforms": "t", "transforms.t.type": case.type}
    given |= {f"transforms.t.{name}": text for name, text in case.options.items()}
    try:
        return shown(Transforms(given)(case.record))
    except ValueError:
        return "error"


def in_32_bits(told: Any) -> Any:
    """Java before 19 prints more digits of a float than it needs."""
    match told:
        case float() if abs(told) < 1e38:
            return struct.unpack("f", struct.pack("f", told))[0]
        case list():
            return [in_32_bits(each) for each in told]
        case dict():
            return {name: in_32_bits(each) for name, each in told.items()}
    return told


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_transform_gives_the_result_of_kafkas(case: Case) -> None:
    ours, kafkas = in_32_bits(applied(case)), in_32_bits(RECORDED[case.name].get("record", "error"))
    assert (ours == kafkas) is (case.name not in DIFFERENT), (ours, kafkas)


def test_every_transform_is_compared_with_kafkas() -> None:
    assert RECORDED.keys() == {case.name for case in CASES}
    used = {plugin(case.type, TRANSFORMS).name for case in CASES}
    installed = {each.name for each in every_plugin(TRANSFORMS)[0]}
    keys_alone = {name for name in installed if name.endswith("-key")}
    assert installed - keys_alone == used - keys_alone


@pytest.mark.parametrize("name", ["org.apache.kafka.connect.transforms.Cast$Value", "Cast$Value", "cast", "CastValue"])
def test_a_transform_has_kafkas_names_and_a_short_one(name: str) -> None:
    assert plugin(name, TRANSFORMS).name == "cast"


TAGGED, TOMB = Record(topic="a1", value=1, headers=(Header("tag", 1),)), Record(topic="b1")


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("TopicNameMatches", {"pattern": "a.*"}, [True, False]),
        ("TopicNameMatches", {"pattern": "a"}, [False, False]),
        ("HasHeaderKey", {"name": "tag"}, [True, False]),
        ("RecordIsTombstone", {}, [False, True]),
        ("org.apache.kafka.connect.transforms.predicates.RecordIsTombstone", {}, [False, True]),
    ],
)
@pytest.mark.parametrize("negate", [False, True])
def test_a_predicate_selects_the_records(
    kind: str, options: dict[str, str], expected: list[bool], negate: bool
) -> None:
    given = {"transforms": "f", "transforms.f.type": "Filter", "transforms.f.predicate": "p", "predicates": "p"}
    given |= {"predicates.p.type": kind, **{f"predicates.p.{name}": text for name, text in options.items()}}
    transforms = Transforms(given | ({"transforms.f.negate": "true"} if negate else {}))
    assert [transforms(record) is None for record in (TAGGED, TOMB)] == [each is not negate for each in expected]
    assert plugin(kind, PREDICATES).kind == "predicate"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"transforms": "a"}, 'transforms.a: missing required option "type"'),
        ({"transforms": "a", "transforms.a.type": "Csat"}, "no plug-in 'Csat'"),
        ({"transforms": "a", "transforms.a.type": "Cast$Value"}, 'transforms.a: missing required option "spec"'),
        ({"transforms": "a", "transforms.a.type": "cast", "transforms.a.spec": "x:int"}, "the type 'int'"),
        ({"transforms": "a", "transforms.a.type": "Filter", "transforms.a.negat": "true"}, "did you mean 'negate'"),
        ({"transforms": "a", "transforms.a.type": "Filter", "transforms.a.predicate": "p"}, "does not name"),
        ({"transforms": "a", "transforms.a.type": "Filter", "transforms.a.negate": "true"}, "needs a predicate"),
        ({"transforms.a.type": "Filter"}, "\"transforms\" does not name 'a'"),
        ({"predicates": "p", "predicates.p.type": "TopicNameMatches", "predicates.p.pattern": "("}, "predicates.p: "),
        ({"transforms": "r", "transforms.r.type": "RegexRouter", "transforms.r.regex": "a",
          "transforms.r.replacement": "$1"}, "the group 1"),
    ],
)  # fmt: skip
def test_a_wrong_option_of_a_transform_is_named(given: dict[str, str], told: str) -> None:
    errors = validated(DATAGEN | given).errors
    assert any(told in error for error in errors), errors


def test_validation_lists_the_options_of_each_transform() -> None:
    result = validated(DATAGEN | {"transforms": "a", "transforms.a.type": "cast", "transforms.a.spec": "x:int8"})
    rows = {each.definition.name: each for each in result.checked if each.definition.group == "Transforms: a"}
    assert result.errors == []
    assert rows["transforms.a.spec"].text == "x:int8"
    assert rows.keys() >= {"transforms.a.type", "transforms.a.predicate", "transforms.a.replace.null.with.default"}
