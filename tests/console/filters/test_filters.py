"""What filters find, which errors they have, and that a batch without needles has no match."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.filters.examined import Seen
from odradek.console.filters import BadFilter, compiled, needles, parsed
from odradek.protocol.batch import encode_batch
from odradek.protocol.records import Record

NOW_MS = 1_795_000_000_000
TEXTUAL = {"key": "text", "value": "text"}
RECORD = Seen(
    key=b"11",
    value=json.dumps(
        {
            "speed": 81.5,
            "driver": {"id": 7, "name": "Ann/é", "tags": ["night", 3]},
            "late": True,
            "gone": None,
            "text": "42",
        }
    ).encode(),
    headers=(("trace-id", b"old"), ("trace-id", b"a17"), ("empty", None)),
    partition=1,
    offset=99,
    timestamp=1_795_000_000_000,
)


def found(text: str, record: Seen = RECORD) -> bool:
    return compiled(parsed(text, NOW_MS))(record)


@pytest.mark.parametrize(
    "text",
    [
        'value.speed > 80 and key == "11"',
        "key == 11",
        "80 < value.speed",
        'header["trace-id"] ~ "^a[0-9]+$"',
        'header["trace-id"] == "a17"',
        'headers["empty"] is null',
        'headers["absent"] is null and not headers["trace-id"] is null',
        "partition in (0, 1)",
        "partition not in (0, 2)",
        'timestamp > "2026-11-17" and timestamp < "2026-11-19T10:00"',
        'timestamp >= "-1s"',
        "offset >= 99 and size > 10",
        'value contains "speed"',
        '"a17"',
        "'speed'",
        "value.driver.id == 7",
        'value.driver.id == "7"',
        "value.text == 42",
        "value.text > 41",
        'value["driver"]["name"] == "Ann/é"',
        'value.driver.tags contains "night"',
        'value.driver.tags contains "3"',
        'value.driver.tags[0] == "night"',
        "value.driver.tags[-1] == 3",
        "value.late",
        "value.late == true and not value.gone",
        "value.gone is null and value.absent is null and value.absent.below is null",
        "value.gone == null and value.speed != null",
        "value.absent != 5",
        'value.driver.name ~ "(?i)ANN"',
        'value.driver.name !~ "Bob"',
        "value is not null",
        "false == value.late or value.late == true",
        'value.driver ~ "night"',
    ],
)
def test_finds_the_record(text: str) -> None:
    assert found(text)
    assert not found(f"not ({text})")


@pytest.mark.parametrize(
    "text",
    [
        "value.absent < 5 or value.absent >= 5",
        'value.speed < "9"',  # a number is not compared as text
        "value.late == 1",
        "value.driver == 7",
        'value.driver.tags[9] == "night"',
        'value.speed.x == "a"',
        'value contains "Speed"',
        'header["trace-id"] == "old"',  # the last one counts
    ],
)
def test_finds_nothing(text: str) -> None:
    assert not found(text)


def test_null_and_unreadable_values_differ() -> None:
    tombstone, binary = Seen(value=None), Seen(value=b"\xff\x00")
    assert found("value is null", tombstone)
    assert not found("value is null", binary)
    assert not found('value == "x" or value.a == 1 or value > 1', binary)


@pytest.mark.parametrize(
    ("text", "column", "told"),
    [
        ("", 1, "begins with key, value"),
        ("speed > 80", 1, "did you mean value.speed?"),
        ("value.speed = 80", 13, '"=="'),
        ("value.speed > 80 && key == 1", 18, '"and"'),
        ("value.speed >", 14, "found the end"),
        ("value.speed > abc", 15, "put text in quotes"),
        ('partition > "one"', 13, "partition is a number"),
        ('partition ~ "1"', 11, "partition is a number"),
        ('timestamp > "yesterday"', 13, "-15m"),
        ("timestamp > true", 13, "timestamp is a number"),
        ("header == 1", 1, 'header["trace-id"]'),
        ('header["a"] == 1', 16, "a header is text"),
        ('value ~ "(("', 9, "missing )"),
        (r'value ~ "(a)\\1"', 9, "invalid escape"),
        ("(value.a == 1", 14, 'expected ")"'),
        ("value.a == 1 value.b", 14, 'expected "and"'),
        ("partition in 1", 14, 'expected "("'),
        ("value.late > true", 14, "only with == and !="),
        ('"x" and', 8, "expected key"),
        ("5", 1, "alone is no test"),
        ('value contains "', 16, "no closing quote"),
        ("value.", 7, "name of a field"),
        ("value[1.5] == 1", 7, "a name in quotes"),
        ("key", 4, "expected a test after key"),
        ("value.a == null or value.b > null", 30, "null can be tested only"),
        (r'value.a == "\q"', 12, "escape"),
        (r'value ~ "\ud800"', 9, "half of a pair"),
        ("12monkeys == 1", 1, "neither a number nor a name"),
        ("__import__('os').system('x')", 1, "no field __import__"),
        ("value.a == 1; import os", 13, "';'"),
    ],
)
def test_error_names_the_column_and_what_was_expected(text: str, column: int, told: str) -> None:
    with pytest.raises(BadFilter) as refused:
        parsed(text)
    assert told in str(refused.value)
    assert refused.value.column == column


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000,
        "not " * 100 + "value.a",
        "(" * 900 + "value.a" + ")" * 900,
        " or ".join(["value.a"] * 150),
        "value" + ".a" * 30 + " == 1",
        f'value ~ "{"a" * 600}"',
        'value ~ "((a{1,100}){1,100}){1,100}"',
        "value.a == 1" + "0" * 100,
        "\x00",
        '"\\ud800" == value',
    ],
)
def test_hostile_filters_are_refused_or_harmless(text: str) -> None:
    began_s = time.monotonic()
    try:
        node = parsed(text)
    except BadFilter:
        pass
    else:
        compiled(node)(RECORD)
        needles(node, TEXTUAL)
    assert time.monotonic() - began_s < 10


def test_pattern_that_backtracks_takes_linear_time() -> None:
    long = Seen(value=b"a" * 100_000)
    began_s = time.monotonic()
    assert not found(r'value ~ "(a+)+$b|(a|aa)+c"', long)
    assert time.monotonic() - began_s < 10


@given(st.text(max_size=60))
def test_any_text_is_parsed_or_refused_with_a_column(text: str) -> None:
    try:
        compiled(parsed(text, NOW_MS))(RECORD)
    except BadFilter as refused:
        column = refused.column
    else:
        column = 1
    assert 1 <= column <= len(text) + 1


WORDS = st.sampled_from(["a", "11", "ab/c", 'q"x', "é", "x\\y", "true", "1.0", "", "longer text"])
SCALARS = st.one_of(WORDS, st.integers(0, 20), st.booleans(), st.none())
DOCUMENTS = st.one_of(SCALARS, st.dictionaries(st.sampled_from("ab"), st.one_of(SCALARS, st.lists(SCALARS))))


def quoted(text: str) -> str:
    return json.dumps(text)


OPERANDS = st.sampled_from(["key", "value", "value.a", "value.b", "key.a", "value.a[0]", 'header["a"]'])
TESTS = st.one_of(
    st.builds(lambda operand, word: f"{operand} == {quoted(word)}", OPERANDS, WORDS),
    st.builds(lambda operand, words: f"{operand} in ({', '.join(map(quoted, words))})",
              OPERANDS, st.lists(WORDS, min_size=1, max_size=3)),
    st.builds(lambda operand, word: f"{operand} contains {quoted(word)}", OPERANDS, WORDS.filter(bool)),
    st.builds(quoted, WORDS.filter(bool)),
    st.just("offset > 0"),
)  # fmt: skip
FILTERS = st.recursive(
    TESTS,
    lambda inner: st.one_of(
        st.builds(lambda a, b, word: f"({a} {word} {b})", inner, inner, st.sampled_from(["and", "or"])),
        st.builds(lambda a: f"not ({a})", inner),
    ),
    max_leaves=4,
)


@st.composite
def payloads(draw: st.DrawFn) -> bytes | None:
    document = draw(DOCUMENTS)
    if draw(st.booleans()) and isinstance(document, str):
        return document.encode()
    ascii_only = draw(st.booleans())
    text = json.dumps(document, ensure_ascii=ascii_only)
    return None if document is None else text.replace("/", "\\/").encode() if draw(st.booleans()) else text.encode()


@given(FILTERS, payloads(), payloads(), st.one_of(st.none(), WORDS))
def test_batch_with_a_match_has_one_of_the_needles(
    text: str, key: bytes | None, value: bytes | None, header: str | None
) -> None:
    headers = () if header is None else (("a", header.encode()),)
    node = parsed(text, NOW_MS)
    if compiled(node)(Seen(key=key, value=value, headers=headers)):
        sought = needles(node, TEXTUAL)
        batch = bytes(encode_batch([Record(key, value, headers, 0)]))
        assert sought is None or any(needle in batch for needle in sought)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('value.a == "ab/c"', rb'{"a": "ab\/c"}'),
        ('value.a == "q\\"x"', rb'{"a": "q\"x"}'),
        ('value == "ab/c"', rb'"ab\/c"'),
        ('value.a == "plain"', rb'{"a": "\u0070lain"}'),
        ('value in ("x", "plain")', rb'"\u0070lain"'),
    ],
)
def test_texts_that_are_escaped_in_json_are_not_skipped(text: str, value: bytes) -> None:
    node = parsed(text)
    assert compiled(node)(Seen(value=value))
    sought = needles(node, TEXTUAL)
    assert sought is not None
    assert any(needle in bytes(encode_batch([Record(None, value)])) for needle in sought)


def test_needles_of_frequent_filters_are_selective() -> None:
    assert needles(parsed('value contains "abc"'), {}) == {b"abc"}
    assert needles(parsed('key == "11"'), TEXTUAL) == {b"\x0411", b'\x08"11"', b"\\u"}
    assert needles(parsed('value.name == "Ann" and partition == 1'), TEXTUAL) == {b"Ann", b"\\u"}
    assert needles(parsed('value.name == "Ann" or value.speed > 80'), TEXTUAL) is None
    assert needles(parsed('value.name == "Ann"'), {}) is None
    assert needles(parsed("value.id == 7"), TEXTUAL) is None
