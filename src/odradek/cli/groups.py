"""Groups of commands, whose help shows the whole first sentence of each command."""

from __future__ import annotations

import click

WHOLE_SENTENCE = 1_000


class Group(click.Group):
    # Groups inside it are of this class, too.
    group_class = type

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Wraps long sentences. click would cut them off."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.get_short_help_str(WHOLE_SENTENCE)) for name, each in commands if each])
