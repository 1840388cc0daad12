"""`odradek up`: a broker in the foreground."""

from __future__ import annotations

from pathlib import Path

import click

from odradek.cli.remote import key_value

# As the configuration that ships with Kafka: nobody at a terminal wants to wait for members who may still come.
START_AT_ONCE = {"group.initial.rebalance.delay.ms": "0"}


@click.command("up")
@click.option(
    "--data", type=click.Path(file_okay=False, path_type=Path), help="Where records live. [default: ./.odradek]"
)
@click.option("--memory", is_flag=True, help="Keep everything in memory; gone when the broker stops.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    default=9092,
    type=click.IntRange(0, 65535),
    show_default=True,
    help="The port to listen on; 0 picks a free one.",
)
@click.option("-c", "--config", "settings", multiple=True, metavar="KEY=VALUE", help="A broker config by Kafka's name.")
@click.option("-v", "--verbose", is_flag=True, help="Tell each decision, not only what needs attention.")
def command(data: Path | None, memory: bool, host: str, port: int, settings: tuple[str, ...], verbose: bool) -> None:
    """Run a broker until Ctrl-C or SIGTERM."""
    from odradek.base.errors import KafkaError, UnusableDirectory
    from odradek.node.process import NodeFailed, run_in_foreground

    if memory and data is not None:
        raise click.UsageError("--memory and --data exclude each other")
    overrides = START_AT_ONCE | dict(key_value(text) for text in settings)
    directory = None if memory else (data or Path(".odradek"))
    try:
        run_in_foreground(directory, host, port, overrides, announce=click.echo, verbose=verbose)
    except (KafkaError, NodeFailed, UnusableDirectory, OSError) as refused:
        raise click.ClickException(str(refused)) from refused
