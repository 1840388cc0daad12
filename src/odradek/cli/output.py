"""Rows for people and for programs: a table, JSON, or a JSON document per line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
Row = Mapping[str, object]


def output_option(command: F) -> F:
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json", "jsonl"]),
        default="table",
        show_default=True,
        help="How to print the result.",
    )(command)


def print_rows(rows: Sequence[Row], output: str, *, nothing: str) -> None:
    """`nothing` is what a person reads instead of an empty table."""
    if output == "json":
        click.echo(json.dumps(rows, indent=2))
    elif output == "jsonl":
        for row in rows:
            click.echo(json.dumps(row))
    elif rows:
        click.echo(_table(rows))
    else:
        click.echo(nothing, err=True)


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
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)
