"""Prints rows as a table, JSON, JSON lines, YAML or CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from odradek.base.invariants import invariant

F = TypeVar("F", bound=Callable[..., Any])
Row = Mapping[str, object]

FORMS = ("table", "json", "jsonl", "yaml", "csv")


def output_option(command: F) -> F:
    return click.option(
        "-o", "--output", type=click.Choice(FORMS), default="table", show_default=True, help="Output format."
    )(command)


def print_rows(rows: Sequence[Row], output: str, *, nothing: str) -> None:
    """Prints `nothing` instead of an empty table. Column names are identifiers: jq takes them without quotes."""
    if output != "table":
        for name in rows[0] if rows else ():
            invariant(name.isidentifier() and name.islower(), f"{name!r} is a name in snake_case")
    if output == "json":
        click.echo(json.dumps(rows, indent=2))
    elif output == "table" and not rows:
        click.echo(nothing, err=True)
    elif rows or output == "yaml":
        click.echo({"table": _table, "jsonl": _jsonl, "yaml": _yaml, "csv": _csv}[output](rows))


def _table(rows: Sequence[Row]) -> str:
    heads = list(rows[0])
    cells = [[_cell(row[head]) for head in heads] for row in rows]
    widths = [max(len(head), *(len(line[i]) for line in cells)) for i, head in enumerate(heads)]
    numeric = [all(isinstance(row[head], int | None) for row in rows) for head in heads]

    def aligned(line: Sequence[str]) -> str:
        padded = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        )
        return "  ".join(padded).rstrip()

    return "\n".join([aligned([head.upper() for head in heads]), *map(aligned, cells)])


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)


def _jsonl(rows: Sequence[Row]) -> str:
    return "\n".join(json.dumps(row) for row in rows)


def _yaml(rows: Sequence[Row]) -> str:
    """Block style with JSON values, which every YAML parser reads."""
    lines = [
        f"{'- ' if first else '  '}{name}: {json.dumps(value)}"
        for row in rows
        for first, (name, value) in zip([True] + [False] * (len(row) - 1), row.items(), strict=True)
    ]
    return "\n".join(lines) if lines else "[]"


def _csv(rows: Sequence[Row]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rows[0])
    writer.writerows(["" if value is None else _cell(value) for value in row.values()] for row in rows)
    return text.getvalue().rstrip("\n")
