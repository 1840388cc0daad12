"""The error of a command that needs a package that only an extra of Odradek installs."""

from __future__ import annotations

import click

from odradek.base.extras import EXTRAS, extra_of


class MissingExtra(click.ClickException):
    """A command needs a package that only an extra of Odradek installs."""

    def __init__(self, package: str, extra: str | None = None) -> None:
        super().__init__(
            f"this command needs {package}, which is not installed. "
            f"Install it with: pip install 'odradek[{extra or EXTRAS[package]}]'"
        )


def missing_extra(missing: ModuleNotFoundError) -> MissingExtra | None:
    """None for a module that no extra installs: its traceback says more."""
    found = extra_of(missing)
    return None if found is None else MissingExtra(found[0])
