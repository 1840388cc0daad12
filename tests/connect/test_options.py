"""Declaring options, reading them, and the errors that name what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from odradek.connect.options import MASK, Secret, at_least, definitions, option, parse, unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Polling:
    url: str = option("The address to poll.")
    every_ms: int = option("Time between polls.", default=1000, check=at_least(1))
    mode: Literal["bulk", "incrementing"] = option("How rows are found.", default="bulk")
    tables: list[str] = option("Tables.", default=[])
    verbose: bool = option("Say more.", default=False)
    password: Secret | None = option("The password.", default=None)
    headers: dict[str, str] = option("HTTP headers.", default={})


def test_names_types_and_defaults_come_from_the_dataclass() -> None:
    known = {each.name: each for each in definitions(Polling)}
    assert known["every.ms"].kind == "LONG"
    assert known["every.ms"].default_text == "1000"
    assert known["url"].required
    assert known["mode"].choices == ("bulk", "incrementing")
    assert known["password"].kind == "PASSWORD"


def test_texts_become_values_and_a_prefix_collects_the_rest() -> None:
    parsed = parse(
        Polling,
        {"url": "http://a", "every.ms": "5", "tables": "a, b", "verbose": "TRUE", "headers.x-id": "1", "other": "?"},
    )
    assert parsed.config == Polling(url="http://a", every_ms=5, tables=["a", "b"], verbose=True, headers={"x-id": "1"})
    assert unknown({"other": "?"}, parsed.used, []) == [("other", "there is no option 'other'")]


def test_every_error_names_its_option() -> None:
    parsed = parse(Polling, {"every.ms": "0", "mode": "all", "verbose": "maybe"})
    assert parsed.config is None
    assert parsed.errors == [
        'missing required option "url": The address to poll.',
        "\"every.ms\" is '0', but it must be at least 1",
        "\"mode\" is 'all', but it must be one of bulk, incrementing",
        "\"verbose\" is 'maybe', but it must be true or false",
    ]


def test_a_misspelt_option_is_refused_with_the_nearest_name() -> None:
    (told,) = unknown({"evry.ms": "1"}, frozenset(), [each.name for each in definitions(Polling)])
    assert told == ("evry.ms", "there is no option 'evry.ms'; did you mean 'every.ms'?")


def test_a_secret_is_never_shown() -> None:
    parsed = parse(Polling, {"url": "u", "password": "hunter2"})
    assert parsed.config is not None
    assert parsed.config.password is not None
    assert "hunter2" not in f"{parsed.config!r} {parsed.config.password} {parsed.config.password!r}"
    assert MASK in repr(parsed.config)
    assert parsed.config.password.reveal() == "hunter2"
