"""JSON Schemas that refer to others, and values with several possible schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from odradek.connect.conversion import CannotConvert, Converter, converter
from odradek.connect.converters.json_choices import ONE_OF
from odradek.connect.converters.json_schema import json_schema
from odradek.connect.records import FLOAT64, INT64, STRING, Schema, array, struct
from support.schema_registry import SchemaRegistry, schema_registry

ADDRESS = {
    "$id": "https://shop.example/address.json",
    "type": "object",
    "properties": {"city": {"type": "string"}, "country": {"$ref": "country.json#/definitions/code"}},
    "required": ["city"],
}
COUNTRY = {"definitions": {"code": {"type": "string"}}}
ORDER = {
    "type": "object",
    "$defs": {
        "amount": {"type": "number"},
        "line": {"properties": {"n": {"$ref": "#/$defs/amount"}}, "type": "object"},
    },
    "properties": {
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "to": {"$ref": "address.json"},
        "billed": {
            "allOf": [{"$ref": "https://shop.example/address.json"}, {"properties": {"vat": {"type": "string"}}}]
        },
        "paid": {
            "oneOf": [
                {"type": "null"},
                {"type": "object", "properties": {"card": {"type": "string"}}, "required": ["card"]},
                {"type": "object", "properties": {"iban": {"type": "string"}}, "required": ["iban"]},
                {"type": ["string", "integer"]},
            ]
        },
    },
}


def made(registry: SchemaRegistry) -> Converter:
    given = {"value.converter": "json-schema", "value.converter.schema.registry.url": registry.url}
    return converter(given, "value.converter", is_key=False)


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as registry:
        yield registry


def register(registry: SchemaRegistry, subject: str, told: object, **references: str) -> int:
    known = [{"name": f"{name}.json", "subject": of, "version": 1} for name, of in references.items()]
    body = {"schema": json.dumps(told), "schemaType": "JSON", "references": known}
    return int(registry.answer("POST", f"/subjects/{subject}/versions", body)[1]["id"])


def framed(number: int, value: object) -> bytes:
    return b"\0" + number.to_bytes(4) + json.dumps(value).encode()


def test_references_are_followed_into_other_documents(registry: SchemaRegistry) -> None:
    register(registry, "country", COUNTRY)
    register(registry, "address", ADDRESS, country="country")
    number = register(registry, "orders-value", ORDER, address="address")
    row = {
        "lines": [{"n": 1.5}],
        "to": {"city": "Bern", "country": "CH"},
        "billed": {"city": "Bern", "country": None, "vat": "1"},
        "paid": {"iban": "CH1"},
    }
    schema, value = made(registry).decode("orders", framed(number, row))
    assert isinstance(schema, Schema)
    assert schema.of("to") == struct({"city": STRING, "country": STRING.or_null()}).or_null()
    assert schema.of("lines") == array(struct({"n": FLOAT64.or_null()})).or_null()
    billed = schema.of("billed")
    assert billed is not None
    assert [field.name for field in billed.fields] == ["city", "country", "vat"]
    expected = {f"{ONE_OF}.field.{index}": None for index in range(3)} | {f"{ONE_OF}.field.1": {"iban": "CH1"}}
    assert value == row | {"paid": expected}


@pytest.mark.parametrize(
    ("paid", "field", "inner"),
    [
        ({"card": "1"}, 0, {"card": "1"}),
        ({"iban": "2", "more": 1}, 1, {"iban": "2"}),
        (7, 2, {f"{ONE_OF}.field.0": None, f"{ONE_OF}.field.1": 7}),
        ("cash", 2, {f"{ONE_OF}.field.0": "cash", f"{ONE_OF}.field.1": None}),
        (None, None, None),
    ],
)
def test_a_choice_is_a_struct_of_which_one_field_is_set(
    registry: SchemaRegistry, paid: object, field: int | None, inner: Any
) -> None:
    number = register(registry, "choices", {**ORDER["properties"]["paid"], "$defs": {}})
    schema, value = made(registry).decode("choices", framed(number, paid))
    names = [f"{ONE_OF}.field.{index}" for index in range(3)]
    assert value == (None if field is None else dict.fromkeys(names) | {names[field]: inner})
    if paid is not None and isinstance(paid, int | str):
        # and back: what is written is the value alone
        data = made(registry).encode("again", schema, value) or b""
        assert json.loads(data[5:]) == paid


def test_the_schema_of_a_choice_is_a_one_of() -> None:
    choice = struct({f"{ONE_OF}.field.0": INT64.or_null(), f"{ONE_OF}.field.1": STRING.or_null()}, name=ONE_OF)
    told = [{"type": "integer", "connect.type": "int64"}, {"type": "string"}]
    assert json_schema(choice) == {"oneOf": told}
    assert json_schema(choice.or_null()) == {"oneOf": [{"type": "null"}, *told]}


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"$ref": "#/nowhere"}, "leads nowhere"),
        ({"$ref": "other.json"}, "not among the references"),
        ({"$ref": "#anchor"}, "anchor"),
        ({"type": "object", "properties": {"self": {"$ref": "#"}}}, "contains itself"),
        ({"allOf": [True]}, "not a schema"),
        ({"oneOf": [{"type": "null"}]}, "without a schema"),
        ({"oneOf": [{"type": "integer"}, {"type": "boolean"}]}, "fits none"),
    ],
)
def test_what_cannot_be_followed_makes_bad_records(registry: SchemaRegistry, told: object, why: str) -> None:
    number = register(registry, "bad", told)
    with pytest.raises(CannotConvert, match=why):
        made(registry).decode("bad", framed(number, "text"))
