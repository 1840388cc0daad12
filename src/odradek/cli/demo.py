"""`odradek demo`: the platform at work, live."""

from __future__ import annotations

import click

DURATION_HELP = "Seconds to run and then check what was shown; without it, until Ctrl-C."


@click.group("demo", invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """Show the platform at work: trucks on Spark, unless another demo is named."""
    if context.invoked_subcommand is None:
        trucking.main(args=[], prog_name=f"{context.command_path} trucking", standalone_mode=False)


@command.command()
@click.option("--duration", type=click.FloatRange(min=30), metavar="SECONDS", help=DURATION_HELP)
@click.option("--port", default=9092, show_default=True, help="The broker's port; a free one is taken if it is in use.")
@click.option("--page-port", default=8080, show_default=True, help="The page's port; likewise.")
@click.option("--trucks", default=30, type=click.IntRange(1, 200), show_default=True, help="How many drive.")
@click.option(
    "--rate", default=1.0, type=click.FloatRange(0.1, 50), show_default=True, help="Reports of a truck per second."
)
@click.option("--seed", default=1, show_default=True, help="Another number, another day on the road.")
def trucking(duration: float | None, port: int, page_port: int, trucks: int, rate: float, seed: int) -> None:
    """A fleet of trucks, an application on Spark that watches it, and a page with a map."""
    from odradek.demo.trucking.show import DemoFailed, Wishes, show

    wishes = Wishes(duration_s=duration, port=port, page_port=page_port, trucks=trucks, events_per_s=rate, seed=seed)
    try:
        show(wishes)
    except DemoFailed as wrong:
        raise click.ClickException(str(wrong)) from wrong


@command.command()
@click.option("--duration", type=float, metavar="SECONDS", help=DURATION_HELP)
@click.option("--port", default=9092, show_default=True, help="The broker's port; a free one is taken if it is in use.")
def traffic(duration: float | None, port: int) -> None:
    """Page views through a topic to two consumer groups: the broker alone, without Java."""
    from odradek.demo.traffic.show import DemoFailed, show

    try:
        show(duration, port)
    except DemoFailed as wrong:
        raise click.ClickException(str(wrong)) from wrong
