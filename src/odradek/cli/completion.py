"""`odradek completion`: shell completion of commands, options, topics and groups."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

WHERE = {
    "bash": 'put `eval "$(odradek completion bash)"` into ~/.bashrc',
    "zsh": 'put `eval "$(odradek completion zsh)"` into ~/.zshrc',
    "fish": "odradek completion fish > ~/.config/fish/completions/odradek.fish",
}


@click.command("completion", epilog="\b\n" + "\n".join(f"{shell}: {how}" for shell, how in WHERE.items()))
@click.argument("shell", type=click.Choice(list(WHERE)))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL."""
    root = ctx.find_root()
    completion = get_completion_class(shell)
    if completion is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(completion(root.command, {}, "odradek", "_ODRADEK_COMPLETE").source())
