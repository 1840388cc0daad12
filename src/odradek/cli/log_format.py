"""The option that chooses how a process that runs for long writes its log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from odradek.node.logs import FORMATS, TEXT

F = TypeVar("F", bound=Callable[..., Any])


def log_format_option(command: F) -> F:
    return click.option(
        "--log-format",
        type=click.Choice(FORMATS),
        default=TEXT,
        show_default=True,
        envvar="ODRADEK_LOG_FORMAT",
        help="How to write the log to stderr: lines of text, or one JSON object per line; also ODRADEK_LOG_FORMAT.",
    )(command)
