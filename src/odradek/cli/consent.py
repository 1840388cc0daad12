"""Confirmation of destructive commands.

They show their plan and ask for confirmation at a terminal. Without a terminal they refuse, unless `--yes` is given.
`--dry-run` only shows the plan.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from odradek.cli.remote import complain

F = TypeVar("F", bound=Callable[..., Any])

REFUSED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    yes: bool
    dry_run: bool

    @property
    def is_given(self) -> bool:
        """Neither plan nor question: only the result is printed."""
        return self.yes and not self.dry_run

    def show(self, plan: Iterable[str]) -> None:
        """Prints the plan: to stdout in a dry run, otherwise to stderr."""
        if not self.is_given:
            for line in plan:
                click.echo(line, err=not self.dry_run)

    def to(self, question: str) -> bool:
        """Whether to go on. False for a dry run; without confirmation the command ends."""
        if self.dry_run:
            click.echo("nothing was changed (--dry-run)", err=True)
            return False
        if self.yes:
            return True
        if not sys.stdin.isatty():
            complain("nothing was changed: there is no terminal to ask for confirmation. Use --yes to confirm")
            raise SystemExit(REFUSED)
        click.confirm(question, abort=True, err=True)
        return True


def destructive(command: F) -> F:
    """Adds `--yes` and `--dry-run`, as `consent`."""

    @click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
    @click.option("--dry-run", is_flag=True, help="Show the plan and change nothing.")
    @functools.wraps(command)
    def with_consent(*args: Any, yes: bool, dry_run: bool, **kwargs: Any) -> Any:  # noqa: ANN401, as the command's
        return command(*args, consent=Consent(yes=yes, dry_run=dry_run), **kwargs)

    return with_consent  # type: ignore[return-value]
