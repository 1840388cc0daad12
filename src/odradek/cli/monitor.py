"""`odradek monitor`: watches consumer lag, serves Burrow's API and metrics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from odradek.cli.log_format import log_format_option
from odradek.cli.remote import bootstrap_option, client_options

if TYPE_CHECKING:
    from odradek.watch.settings import MonitorSettings


@click.command("monitor")
@bootstrap_option
@client_options
@click.option("--cluster", "name", default="local", show_default=True, help="The name of the cluster in answers.")
@click.option(
    "-c",
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A TOML file with clusters and settings of the evaluation.",
)
@click.option("--listen", metavar="HOST:PORT", help="The address of the HTTP API. [default: 127.0.0.1:8000]")
@log_format_option
@click.option("--check", is_flag=True, help="Check the file of --config, and exit.")
@click.pass_context
def command(
    ctx: click.Context,
    bootstrap: str,
    settings: dict[str, str],
    name: str,
    config: Path | None,
    listen: str | None,
    log_format: str,
    check: bool,
) -> None:
    """Watch the consumer lag of a cluster, or of the clusters in a file, until Ctrl-C."""
    from odradek.watch.settings import BadSettings, configured
    from odradek.watch.watched_cluster import ClusterSettings

    is_named = ctx.get_parameter_source("bootstrap") is ParameterSource.COMMANDLINE
    cluster = ClusterSettings(name=name, servers=bootstrap, client=settings)
    try:
        found = configured(config, cluster, listen, is_named=is_named)
    except BadSettings as wrong:
        raise click.ClickException(str(wrong)) from None
    if check:
        click.echo(f"{config or 'the command line'} is valid: {', '.join(each.name for each in found.clusters)}")
        return
    _run(found, log_format)


def _run(settings: MonitorSettings, log_format: str) -> None:
    import logging

    from odradek.node.logs import log_to_stderr
    from odradek.watch.alert_state import BadState
    from odradek.watch.service import serve

    log_to_stderr(logging.WARNING, log_format)

    def ready(url: str) -> None:
        for cluster in settings.clusters:
            click.echo(f"Watching {cluster.name} at {cluster.servers}")
        click.echo(f"Lag: {url}/v3/kafka, in Burrow's API")
        click.echo(f"Metrics: {url}/metrics")

    try:
        serve(settings, ready)
    except (OSError, BadState) as refused:
        raise click.ClickException(str(refused)) from refused
    except KeyboardInterrupt:
        click.echo("stopped", err=True)
