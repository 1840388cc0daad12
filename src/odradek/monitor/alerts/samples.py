"""Samples of metrics: reads Prometheus' text format, of which only the named metrics are kept."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

Labels = tuple[tuple[str, str], ...]  # sorted by name

_LINE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*")
_LABEL = re.compile(r'\s*([a-zA-Z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*,?')
_ESCAPED = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


class Sample(NamedTuple):
    name: str
    labels: Labels
    value: float


def read_samples(text: str, names: Collection[str]) -> Iterator[Sample]:
    """Lines that cannot be read are skipped: a rule must not fail because of another metric."""
    for line in text.split("\n"):  # splitlines() would also split at other characters, which labels may contain
        if line.startswith("#") or (found := _LINE.fullmatch(line)) is None or found[1] not in names:
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        labels = ((name, _unescaped(text)) for name, text in _LABEL.findall(found[2] or ""))
        yield Sample(found[1], tuple(sorted(labels)), value)


def _unescaped(text: str) -> str:
    return re.sub(r'\\[\\"n]', lambda found: _ESCAPED[found[0]], text) if "\\" in text else text
