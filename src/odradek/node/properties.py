"""Reads settings from TOML, and from properties files as Java does: `key=value`, `key: value` or `key value`, comments,
continued lines, escapes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANK = " \t\f"
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
# The key ends at the first separator without a backslash before it.
_KEY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)


def parse_properties(text: str) -> dict[str, str]:
    """If a key occurs twice, the last value applies, as in Java."""
    values = {}
    for line in _logical_lines(text):
        matched = _KEY.fullmatch(line)
        if matched:
            values[_unescaped(matched[1])] = _unescaped(matched[2])
    return values


def parse_toml(text: str) -> dict[str, str]:
    """Dotted keys and tables are equivalent; lists become comma-separated text. Raises ValueError for invalid TOML."""
    import tomllib

    return dict(_flat("", tomllib.loads(text)))


def _flat(prefix: str, table: dict[str, object]) -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _flat(f"{name}.", value)
        else:
            yield name, _toml_value(value)


def _toml_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(map(_toml_value, value))
    return str(value)


def write_properties(values: dict[str, str]) -> str:
    """Keeps the given order. Inverse of `parse_properties` for keys and values without control characters."""
    return "".join(f"{_escaped(key, ':= ')}={_escaped(value)}\n" for key, value in values.items())


def amend_properties(text: str, values: Mapping[str, str]) -> str:
    """Sets these keys in the text; comments and order stay."""
    left = {key: value for key, value in values.items() if parse_properties(text).get(key) != value}
    changed, told, entry = dict(left), "", ""
    for line in _LINE.findall(text):
        entry += line
        if (len(line.rstrip("\r\n")) - len(line.rstrip("\r\n").rstrip("\\"))) % 2 and not _is_comment(entry):
            continue  # the next line belongs to it
        keys = parse_properties(entry).keys() & changed.keys()
        if not keys:
            told += entry
        for key in keys & left.keys():
            told += write_properties({key: left.pop(key)})
        entry = ""
    told += entry
    return told + ("\n" if left and told and not told.endswith("\n") else "") + write_properties(left)


def _is_comment(line: str) -> bool:
    return line.lstrip(_BLANK)[:1] in ("#", "!")


def _logical_lines(text: str) -> list[str]:
    lines, continued = [], ""
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(_BLANK)
        if not continued and (not line or line[0] in "#!"):
            continue
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            continued += line[:-1]
            continue
        lines.append(continued + line)
        continued = ""
    return [*lines, continued] if continued else lines


def _unescaped(text: str) -> str:
    def replaced(escape: re.Match[str]) -> str:
        word = escape[1]
        if len(word) == 5:
            return chr(int(word[1:], 16))
        return _ESCAPES.get(word, word)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", replaced, text)


def _escaped(text: str, also: str = "") -> str:
    escaped = "".join(f"\\{letter}" if letter in "\\" + also else letter for letter in text)
    return f"\\{escaped}" if escaped[:1] in ("#", "!", " ") else escaped
