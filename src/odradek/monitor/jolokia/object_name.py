"""JMX object names and patterns: `kafka.server:type=ReplicaManager,name=*`. Messages of errors are those of the JDK."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from odradek.base.limits import object_name_chars_max

Property = tuple[str, str]

_WITHOUT_QUOTES = re.compile(r"[\w\-%. \t]*")
_IN_QUOTES = str.maketrans({"\\": "\\\\", '"': '\\"', "*": "\\*", "?": "\\?", "\n": "\\n"})
_ESCAPED = re.compile(r"\\(.)")
_ESCAPABLE = '\\"?*n'


class MalformedName(Exception):
    """Says what is wrong with an object name."""


@dataclass(frozen=True, slots=True)
class ObjectName:
    """`properties` are in the order in which they were written. `is_open`: the name ends with `,*`."""

    domain: str
    properties: tuple[Property, ...]
    is_open: bool = False
    is_pattern: bool = False

    @property
    def canonical(self) -> str:
        return self._written(sorted(self.properties))

    @property
    def written(self) -> str:
        return self._written(self.properties)

    def __str__(self) -> str:
        """As Jolokia repeats it in its answer."""
        return self.canonical if self.is_pattern else self.written

    def _written(self, properties: Sequence[Property]) -> str:
        parts = [f"{key}={value}" for key, value in properties]
        if self.is_open:
            parts.append("*")
        return f"{self.domain}:{','.join(parts)}"


ALL = ObjectName("*", (), is_open=True, is_pattern=True)


def parsed(text: str) -> ObjectName:
    """Raises MalformedName. No text at all means all MBeans."""
    if not text:
        return ALL
    if len(text) > object_name_chars_max:
        raise MalformedName(f"An object name has at most {object_name_chars_max} characters, this one has {len(text)}")
    domain, _, rest = text.partition(":")
    if "\n" in domain:
        raise MalformedName("Invalid character '\\n' in domain name")
    if not rest:
        raise MalformedName("Key properties cannot be empty")
    is_open = has_wildcards = False
    properties: dict[str, str] = {}
    position = 0
    while position < len(rest):
        if rest.startswith("*", position) and rest[position + 1 : position + 2] in ("", ","):
            if is_open:
                raise MalformedName("Cannot have several '*' characters in pattern property list")
            is_open = True
            position += 1
        else:
            key, position = _key(rest, position)
            if key in properties:
                raise MalformedName(f"key `{key}' already defined")
            properties[key], position, is_wild = _value(rest, position)
            has_wildcards |= is_wild
        position = _after_comma(rest, position)
    is_pattern = is_open or has_wildcards or "*" in domain or "?" in domain
    return ObjectName(domain, tuple(properties.items()), is_open, is_pattern)


def quoted(value: str) -> str:
    """A label as the value of a key property: in quotes if it has other characters than Kafka writes without."""
    return value if _WITHOUT_QUOTES.fullmatch(value) else f'"{value.translate(_IN_QUOTES)}"'


def unquoted(value: str) -> str:
    """The label that `quoted` has written."""
    if not value.startswith('"'):
        return value
    return _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], value[1:-1])


def matcher(pattern: str) -> Callable[[str], object]:
    """Whether a text matches a pattern with `*` and `?`.

    The groups are atomic, so no pattern takes longer than its length times that of the text.
    """
    if "*" not in pattern and "?" not in pattern:
        return pattern.__eq__
    first, *others = (re.escape(part).replace(r"\?", ".") for part in pattern.split("*"))
    if not others:
        return re.compile(first, re.DOTALL).fullmatch
    *middle, last = others
    groups = "".join(f"(?>.*?{part})" for part in middle if part)
    return re.compile(f"{first}{groups}.*{last}", re.DOTALL).fullmatch


def _key(rest: str, start: int) -> tuple[str, int]:
    for position in range(start, len(rest)):
        character = rest[position]
        if character == "=":
            if position == start:
                raise MalformedName("Invalid key (empty)")
            return rest[start:position], position + 1
        if character in "*?,:\n":
            if character == ",":
                break
            _invalid(character, "key")
    raise MalformedName("Unterminated key property part")


def _value(rest: str, start: int) -> tuple[str, int, bool]:
    """The value, the position after it, and whether it is a pattern."""
    if rest.startswith('"', start):
        return _quoted_value(rest, start)
    comma = rest.find(",", start)
    end = len(rest) if comma < 0 else comma
    value = rest[start:end]
    for character in value:
        if character in '=:"\n':
            _invalid(character, "value")
    return value, end, "*" in value or "?" in value


def _quoted_value(rest: str, start: int) -> tuple[str, int, bool]:
    position, is_wild = start + 1, False
    while position < len(rest):
        character = rest[position]
        if character == '"':
            return rest[start : position + 1], position + 1, is_wild
        if character == "\\":
            position += 1
            if rest[position : position + 1] not in tuple(_ESCAPABLE):
                raise MalformedName("Invalid escape sequence in quoted value")
        elif character == "\n":
            raise MalformedName("Newline in quoted value")
        is_wild |= character in "*?"
        position += 1
    raise MalformedName("Unterminated quoted value")


def _after_comma(rest: str, position: int) -> int:
    if position == len(rest):
        return position
    if rest[position] != ",":
        raise MalformedName("Invalid character after a quoted value")
    if position + 1 == len(rest):
        raise MalformedName("Invalid ending comma")
    return position + 1


def _invalid(character: str, part: str) -> NoReturn:
    shown = "\\n" if character == "\n" else character
    raise MalformedName(f"Invalid character '{shown}' in {part} part of property")
