"""Property files as Java reads them: `key=value`, `key: value` or `key value`, comments, continued lines, escapes."""

from __future__ import annotations

import re

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANK = " \t\f"
# Up to the first separator that no backslash precedes.
_KEY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)


def parse_properties(text: str) -> dict[str, str]:
    """Of a key that stands there twice, the last one counts, as in Java."""
    values = {}
    for line in _logical_lines(text):
        matched = _KEY.fullmatch(line)
        if matched:
            values[_unescaped(matched[1])] = _unescaped(matched[2])
    return values


def write_properties(values: dict[str, str]) -> str:
    """Sorted as given; the inverse of `parse_properties` for keys and values without control characters."""
    return "".join(f"{_escaped(key, ':= ')}={_escaped(value)}\n" for key, value in values.items())


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
