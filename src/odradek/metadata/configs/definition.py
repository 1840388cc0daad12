"""One configuration key: its name, type, default, range and meaning. Pure data with a parser.

A key is a field of a frozen dataclass, made by `boolean`, `int16`, `int32`, `int64`, `double`, `text` or `words`: the
table that DescribeConfigs shows and the typed attribute that the code reads are the same line. Parsing is that of
Kafka's `ConfigDef`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import Field, dataclass, field, fields
from decimal import Decimal
from enum import IntEnum
from typing import Any, TypeVar

from odradek.base.errors import ErrorCode, KafkaError

INT16_MAX = 2**15 - 1
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

Value = bool | int | float | str | tuple[str, ...] | None
D = TypeVar("D", bound=Value)
# Returns what is wrong with a value, or an empty text.
Check = Callable[[Any], str | None]


class ConfigType(IntEnum):
    """Wire codes of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigSource(IntEnum):
    """Wire codes of DescribeConfigs. A source with a smaller code overrides a source with a larger one."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Synonym:
    """A broker key that is the default of a topic key; `factor` converts its unit to that of the topic key."""

    name: str
    factor: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    name: str
    type: ConfigType
    default: Value
    doc: str
    check: Check | None = None
    synonyms: tuple[Synonym, ...] = ()  # of a topic key, highest precedence first
    dynamic: bool = False  # of a broker key: may change while the broker runs
    internal: bool = False  # supported, but shown only if it is set

    def parse(self, written: str) -> Value:
        value = _PARSERS[self.type](self.name, written.strip())
        problem = self.check(value) if self.check else None
        if problem:
            raise _refusal(self.name, written, problem)
        return value

    def write(self, value: Value) -> str | None:
        """The inverse of `parse`, as Kafka prints it."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        if isinstance(value, float):
            return _written_double(value)
        return None if value is None else str(value)


def _written_double(value: float) -> str:
    """Formats large and small numbers as Java does: 1.0E7 where Python has 10000000.0."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return str(value)
    digits, _, exponent = f"{Decimal(repr(value)).normalize():E}".partition("E")
    return f"{digits if '.' in digits else f'{digits}.0'}E{int(exponent)}"


def _refusal(name: str, written: str, problem: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, f"Invalid value {written} for configuration {name}: {problem}")


def _parse_boolean(name: str, written: str) -> bool:
    lowered = written.lower()
    if lowered not in ("true", "false"):
        raise _refusal(name, written, "Expected value to be either true or false")
    return lowered == "true"


def _integer_parser(type_name: str, largest: int) -> Callable[[str, str], int]:
    def parse(name: str, written: str) -> int:
        # Python's int() also accepts 1_000 and digits of other scripts.
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", written) or not -largest - 1 <= int(written) <= largest:
            raise _refusal(name, written, f"Not a number of type {type_name}")
        return int(written)

    return parse


def _parse_double(name: str, written: str) -> float:
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", written):
        raise _refusal(name, written, "Not a number of type DOUBLE")
    if not math.isfinite(value := float(written)):
        raise _refusal(name, written, "Too large")
    return value


def _parse_words(_name: str, written: str) -> tuple[str, ...]:
    return tuple(re.split(r"\s*,\s*", written)) if written else ()


_PARSERS: dict[ConfigType, Callable[[str, str], Value]] = {
    ConfigType.BOOLEAN: _parse_boolean,
    ConfigType.STRING: lambda _name, written: written,
    ConfigType.SHORT: _integer_parser("SHORT", INT16_MAX),
    ConfigType.INT: _integer_parser("INT", INT32_MAX),
    ConfigType.LONG: _integer_parser("LONG", INT64_MAX),
    ConfigType.DOUBLE: _parse_double,
    ConfigType.LIST: _parse_words,
}


def at_least(smallest: int) -> Check:
    return lambda value: None if value >= smallest else f"Value must be at least {smallest}"


def between(smallest: int, largest: int) -> Check:
    def check(value: int) -> str | None:
        if value < smallest:
            return f"Value must be at least {smallest}"
        return None if value <= largest else f"Value must be no more than {largest}"

    return check


def unlimited_or_at_least_one(value: int) -> str | None:
    return None if value == -1 or value >= 1 else "Value must be -1, which means no limit, or at least 1"


def one_of(*allowed: str) -> Check:
    return lambda value: None if value in allowed else f"String must be one of: {', '.join(allowed)}"


def distinct_among(*allowed: str) -> Check:
    def check(value: tuple[str, ...]) -> str | None:
        if len(dict.fromkeys(value)) != len(value):
            return "Duplicate values are not allowed"
        unknown = [word for word in value if word not in allowed]
        return f"String must be one of: {', '.join(allowed)}" if unknown else None

    return check


def boolean(name: str, default: bool, doc: str, *, synonyms: tuple[Synonym, ...] = (), dynamic: bool = False) -> bool:
    kind = ConfigType.BOOLEAN
    return _field(
        default, Definition(name=name, type=kind, default=default, doc=doc, synonyms=synonyms, dynamic=dynamic)
    )


def int16(name: str, default: int, doc: str, check: Check | None = None) -> int:
    return _field(default, Definition(name=name, type=ConfigType.SHORT, default=default, doc=doc, check=check))


def int32(
    name: str,
    default: D,
    doc: str,
    check: Check | None = None,
    *,
    synonyms: tuple[Synonym, ...] = (),
    dynamic: bool = False,
    internal: bool = False,
) -> D:
    return _field(
        default,
        Definition(
            name=name,
            type=ConfigType.INT,
            default=default,
            doc=doc,
            check=check,
            synonyms=synonyms,
            dynamic=dynamic,
            internal=internal,
        ),
    )


def int64(
    name: str,
    default: int,
    doc: str,
    check: Check | None = None,
    *,
    synonyms: tuple[Synonym, ...] = (),
    dynamic: bool = False,
) -> int:
    return _field(
        default,
        Definition(
            name=name,
            type=ConfigType.LONG,
            default=default,
            doc=doc,
            check=check,
            synonyms=synonyms,
            dynamic=dynamic,
        ),
    )


def double(
    name: str,
    default: float,
    doc: str,
    check: Check | None = None,
    *,
    synonyms: tuple[Synonym, ...] = (),
    dynamic: bool = False,
) -> float:
    return _field(
        default,
        Definition(
            name=name,
            type=ConfigType.DOUBLE,
            default=default,
            doc=doc,
            check=check,
            synonyms=synonyms,
            dynamic=dynamic,
        ),
    )


def text(name: str, default: D, doc: str, check: Check | None = None, *, synonyms: tuple[Synonym, ...] = ()) -> D:
    return _field(
        default,
        Definition(name=name, type=ConfigType.STRING, default=default, doc=doc, check=check, synonyms=synonyms),
    )


def words(
    name: str,
    default: tuple[str, ...] | None,
    doc: str,
    check: Check | None = None,
    *,
    synonyms: tuple[Synonym, ...] = (),
) -> tuple[str, ...]:
    """Without a default the value is empty."""
    return _field(
        default or (),
        Definition(name=name, type=ConfigType.LIST, default=default, doc=doc, check=check, synonyms=synonyms),
    )


def _field(default: D, definition: Definition) -> D:
    return field(default=default, metadata={Definition: definition})


def definitions(table: type) -> dict[str, Definition]:
    """The keys by name, of a dataclass with fields from the functions above."""
    return {definition.name: definition for _, definition in _defined_fields(table)}


def attributes(table: type) -> dict[str, str]:
    """Attribute names by key."""
    return {definition.name: entry.name for entry, definition in _defined_fields(table)}


def _defined_fields(table: type) -> Iterable[tuple[Field[Any], Definition]]:
    return [(entry, entry.metadata[Definition]) for entry in fields(table) if Definition in entry.metadata]


def suggestion(name: str, known: Iterable[str]) -> str:
    import difflib

    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean {nearest[0]}?" if nearest else ""
