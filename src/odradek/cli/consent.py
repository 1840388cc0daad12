"""One convention for commands that destroy something.

They show what would be done and ask at a terminal. Without a terminal they refuse, unless `--yes` is given; `--dry-run`
only shows.
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
        """Nobody needs to be asked: what is done is told afterwards alone."""
        return self.yes and not self.dry_run

    def show(self, plan: Iterable[str]) -> None:
        """What would be done: the result of a dry run, else words beside the result."""
        if not self.is_given:
            for line in plan:
                click.echo(line, err=not self.dry_run)

    def to(self, question: str) -> bool:
        """Whether to do it, after it was shown. False for a dry run; a refusal ends the command."""
        if self.dry_run:
            click.echo("nothing was changed (--dry-run)", err=True)
            return False
        if self.yes:
            return True
        if not sys.stdin.isatty():
            complain("nothing was changed: there is no terminal to ask at. Add --yes to do it")
            raise SystemExit(REFUSED)
        click.confirm(question, abort=True, err=True)
        return True


def destructive(command: F) -> F:
    """Adds `--yes` and `--dry-run`, as `consent`."""

    @click.option("-y", "--yes", is_flag=True, help="Do it without asking.")
    @click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing.")
    @functools.wraps(command)
    def with_consent(*args: Any, yes: bool, dry_run: bool, **kwargs: Any) -> Any:  # noqa: ANN401, as the command's
        return command(*args, consent=Consent(yes=yes, dry_run=dry_run), **kwargs)

    return with_consent  # type: ignore[return-value]
