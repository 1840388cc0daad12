"""`odradek demo`: live demos."""

from __future__ import annotations

from importlib import import_module

import click

from odradek.cli.extras import MissingExtra
from odradek.cli.groups import Group

DURATION_HELP = "Stop after this many seconds and check the results. Without it, run until Ctrl-C."


@click.group("demo", cls=Group, invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """Run a live demo. The default is trucking."""
    if context.invoked_subcommand is None:
        trucking.main(args=[], prog_name=f"{context.command_path} trucking", standalone_mode=False)


@command.command()
@click.option("--duration", type=click.FloatRange(min=30), metavar="SECONDS", help=DURATION_HELP)
@click.option("--port", default=9092, show_default=True, help="The broker's port; if it is in use, a free one.")
@click.option("--page-port", default=8080, show_default=True, help="The page's port; if it is in use, a free one.")
@click.option("--trucks", default=30, type=click.IntRange(1, 200), show_default=True, help="Number of trucks.")
@click.option(
    "--rate", default=1.0, type=click.FloatRange(0.1, 50), show_default=True, help="Events per second of each truck."
)
@click.option("--seed", default=1, show_default=True, help="Seed of the random events.")
@click.option(
    "--database",
    metavar="URL",
    help="An empty PostgreSQL database, as postgresql://USER:PASSWORD@HOST/NAME. [default: a file of SQLite]",
)
def trucking(
    duration: float | None, port: int, page_port: int, trucks: int, rate: float, seed: int, database: str | None
) -> None:
    """A fleet of trucks, an application on Spark that watches it, and a page with a map.

    The drivers are rows of a database. Connectors capture their changes, and write alerts to a table and to Parquet.
    """
    for package in ("pyspark", "sqlalchemy"):  # before anything starts
        try:
            import_module(package)
        except ModuleNotFoundError:
            raise MissingExtra(package, "demo") from None
    from odradek.demo.trucking.show import DemoFailed, Wishes, show

    wishes = Wishes(
        duration_s=duration,
        port=port,
        page_port=page_port,
        trucks=trucks,
        events_per_s=rate,
        seed=seed,
        database=database,
    )
    try:
        show(wishes)
    except DemoFailed as wrong:
        raise click.ClickException(str(wrong)) from wrong


@command.command()
@click.option("--duration", type=float, metavar="SECONDS", help=DURATION_HELP)
@click.option("--port", default=9092, show_default=True, help="The broker's port; if it is in use, a free one.")
def traffic(duration: float | None, port: int) -> None:
    """Page views through a topic to two consumer groups. Needs only the broker, no Java."""
    from odradek.demo.traffic.show import DemoFailed, show

    try:
        show(duration, port)
    except DemoFailed as wrong:
        raise click.ClickException(str(wrong)) from wrong
