"""`odradek up`: a broker in the foreground, or several."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from odradek.cli.remote import key_value

# As the configuration that ships with Kafka: nobody at a terminal wants to wait for members who may still come.
START_AT_ONCE = {"group.initial.rebalance.delay.ms": "0"}
# Of topics that do not say, where there are several nodes: one may be lost.
SEVERAL_COPIES = 3


@click.command("up")
@click.option("-n", "--nodes", type=click.IntRange(1, 99), help="Run a cluster of so many nodes, a process each.")
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
    help="The port to listen on; 0 picks a free one. With -n the first of as many ports.",
)
@click.option("-c", "--config", "settings", multiple=True, metavar="KEY=VALUE", help="A broker config by Kafka's name.")
@click.option("--restart", is_flag=True, help="With -n: start a node that died again.")
@click.option("-v", "--verbose", is_flag=True, help="Tell each decision, not only what needs attention.")
def command(
    nodes: int | None,
    data: Path | None,
    memory: bool,
    host: str,
    port: int,
    settings: tuple[str, ...],
    restart: bool,
    verbose: bool,
) -> None:
    """Run a broker until Ctrl-C or SIGTERM, or with -n a cluster."""
    from odradek.base.errors import KafkaError, UnusableDirectory
    from odradek.node.process import NodeFailed

    if memory and data is not None:
        raise click.UsageError("--memory and --data exclude each other")
    if nodes is not None and memory:
        raise click.UsageError("-n and --memory exclude each other: a node that dies would come back without its vote")
    if restart and nodes is None:
        raise click.UsageError("--restart is for the nodes of -n")
    overrides = START_AT_ONCE | dict(key_value(text) for text in settings)
    try:
        if nodes is None:
            _one(None if memory else (data or Path(".odradek")), host, port, overrides, verbose)
        else:
            _several(nodes, data or Path(".odradek"), host, port, overrides, restart, verbose)
    except (KafkaError, NodeFailed, UnusableDirectory, OSError) as refused:
        raise click.ClickException(str(refused)) from refused


def _one(directory: Path | None, host: str, port: int, overrides: Mapping[str, str], verbose: bool) -> None:
    from odradek.node.local_cluster import holds_several
    from odradek.node.process import run_in_foreground

    if directory is not None and holds_several(directory):
        raise click.UsageError(f"{directory} holds a cluster: start it with -n, or choose another with --data")
    run_in_foreground(directory, host, port, overrides, announce=click.echo, verbose=verbose)


def _several(
    count: int, directory: Path, host: str, port: int, overrides: Mapping[str, str], restart: bool, verbose: bool
) -> None:
    import asyncio
    import signal

    from odradek.cli.output import print_rows
    from odradek.node.local_cluster import local_nodes
    from odradek.node.supervisor import Supervisor

    copies = str(min(count, SEVERAL_COPIES))
    nodes = local_nodes(count, directory, host, port, {"default.replication.factor": copies, **overrides})
    rows = [
        {"node": n.node_id, "clients": n.clients, "controllers": n.controllers, "records": directory / str(n.node_id)}
        for n in nodes
    ]
    print_rows(rows, "table", nothing="")

    def command(properties: Path) -> list[str]:
        start = [sys.executable, "-m", "odradek.cli", "node", "start", "--until-stdin-ends"]
        return [*start, "--config", str(properties), *(["--verbose"] if verbose else [])]

    async def supervise() -> bool:
        supervisor = Supervisor(
            nodes, command=command, tell=click.echo, log=lambda line: click.echo(line, err=True), restart=restart
        )
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, supervisor.stop)
        return await supervisor.run()

    if not asyncio.run(supervise()):
        raise SystemExit(1)
    click.echo("stopped cleanly")
