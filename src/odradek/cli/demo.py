"""`odradek demo`: the platform at work, live."""

from __future__ import annotations

import click


@click.command("demo")
@click.option(
    "--duration",
    type=click.FloatRange(min=1),
    help="End after this many seconds and check that what was shown was right.",
)
@click.option(
    "--port",
    default=9092,
    type=click.IntRange(0, 65535),
    show_default=True,
    help="Where the demo's broker listens, if the port is free.",
)
def command(duration: float | None, port: int) -> None:
    """Live traffic through a topic with two consumer groups, until Ctrl-C."""
    from odradek.demo.show import DemoFailed, show

    try:
        show(duration, port)
    except DemoFailed as wrong:
        raise click.ClickException(str(wrong)) from wrong
