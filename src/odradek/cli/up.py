"""`odradek up`: a broker in the foreground, or several."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from odradek.cli.imports import uncollected
from odradek.cli.log_format import log_format_option
from odradek.cli.reasons import reason
from odradek.cli.remote import BOOTSTRAP_VARIABLE, key_value
from odradek.node.logs import JSON

if TYPE_CHECKING:
    from odradek.cli.console_process import ConsoleProcess

# As in the configuration that ships with Kafka: the first rebalance does not wait for more members.
START_AT_ONCE = {"group.initial.rebalance.delay.ms": "0"}
HOST, PORT = "127.0.0.1", 9092
# The default replication factor with -n: one node may be lost.
SEVERAL_COPIES = 3
EXPORT = f"  export {BOOTSTRAP_VARIABLE}="


@click.command("up")
@click.option(
    "-n", "--nodes", type=click.IntRange(1, 99), help="Run a cluster of this many nodes, each in its own process."
)
@click.option(
    "--data", type=click.Path(file_okay=False, path_type=Path), help="The data directory. [default: ./.odradek]"
)
@click.option("--memory", is_flag=True, help="Keep all data in memory. It is lost when the broker stops.")
@click.option("--host", help="The address to listen on. [default: 127.0.0.1; with -n, that of the last start]")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="The port to listen on; 0 picks a free one. With -n, the first of consecutive ports. [default: 9092; with -n, "
    "those of the last start]",
)
@click.option(
    "-c", "--config", "settings", multiple=True, metavar="KEY=VALUE", help="A broker config by its Kafka name."
)
@click.option(
    "--console/--no-console",
    "with_console",
    default=True,
    envvar="ODRADEK_CONSOLE",
    help="Start the web console, as a process of its own. [default: --console; also ODRADEK_CONSOLE=0]",
)
@click.option(
    "--console-port",
    type=click.IntRange(0, 65535),
    help="The port of the console; 0 picks a free one. [default: 8080, or a free one if it is taken]",
)
@click.option("--restart", is_flag=True, help="With -n: restart a node that dies.")
@click.option("-v", "--verbose", is_flag=True, help="Log each decision, not only warnings.")
@log_format_option
def command(
    nodes: int | None,
    data: Path | None,
    memory: bool,
    host: str | None,
    port: int | None,
    settings: tuple[str, ...],
    with_console: bool,
    console_port: int | None,
    restart: bool,
    verbose: bool,
    log_format: str,
) -> None:
    """Run a broker, or with -n a cluster, until Ctrl-C or SIGTERM."""
    with uncollected():
        from odradek.base.errors import KafkaError, UnusableDirectory
        from odradek.cli.console_process import ConsoleProcess
        from odradek.node.listeners import Endpoint
        from odradek.node.process import NodeFailed
        from odradek.node.tcp_ports import require_free

    if memory and data is not None:
        raise click.UsageError("--memory and --data cannot be combined")
    if nodes is not None and memory:
        raise click.UsageError("-n and --memory cannot be combined: a restarted node would have forgotten its vote")
    if restart and nodes is None:
        raise click.UsageError("--restart needs -n")
    given = dict(key_value(text) for text in settings)
    try:
        if with_console and console_port:
            require_free(Endpoint(host=HOST, port=console_port), "choose another one with --console-port")
        with ConsoleProcess(wanted=with_console, port=console_port, log_format=log_format) as console:
            if nodes is None:
                where = host or HOST, PORT if port is None else port
                directory = None if memory else (data or Path(".odradek"))
                _one(directory, *where, START_AT_ONCE | given, console, verbose, log_format)
            else:
                _several(nodes, data or Path(".odradek"), host, port, given, console, restart, verbose, log_format)
    except (KafkaError, NodeFailed, UnusableDirectory, OSError) as refused:
        raise click.ClickException(reason(refused)) from refused


def _one(
    directory: Path | None,
    host: str,
    port: int,
    overrides: Mapping[str, str],
    console: ConsoleProcess,
    verbose: bool,
    log_format: str,
) -> None:
    from odradek.node.local_cluster import holds_several
    from odradek.node.process import run_in_foreground

    if directory is not None and holds_several(directory):
        raise click.UsageError(
            f"{directory} holds a cluster: start it with -n, or choose another directory with --data"
        )
    run_in_foreground(
        directory,
        host,
        port,
        overrides,
        announce=click.echo,
        ready=lambda where: console.start(str(where)),
        verbose=verbose,
        log_format=log_format,
    )


def _several(
    count: int,
    directory: Path,
    host: str | None,
    port: int | None,
    given: Mapping[str, str],
    console: ConsoleProcess,
    restart: bool,
    verbose: bool,
    log_format: str,
) -> None:
    import asyncio
    import signal

    from odradek.cli.output import print_rows
    from odradek.node.local_cluster import holds_several, local_nodes, remembered
    from odradek.node.supervisor import Supervisor

    defaults = START_AT_ONCE | {"default.replication.factor": str(min(count, SEVERAL_COPIES))}
    known = remembered(directory)
    if port is None:
        port = 0 if holds_several(directory) else PORT
    nodes = local_nodes(
        count,
        directory,
        host,
        port,
        given,
        before={node_id: defaults | known.get(node_id, {}) for node_id in range(1, count + 1)},
    )
    rows = [
        {"node": n.node_id, "clients": n.clients, "controllers": n.controllers, "records": directory / str(n.node_id)}
        for n in nodes
    ]
    print_rows(rows, "table", nothing="")

    def command(properties: Path) -> list[str]:
        start = [sys.executable, "-m", "odradek.cli", "node", "start", "--until-stdin-ends"]
        options = ["--log-format", log_format, *(["--verbose"] if verbose else [])]
        return [*start, "--config", str(properties), *options]

    def log(node_id: int, line: str) -> None:
        click.echo(line if log_format == JSON else f"{node_id} | {line}", err=True)

    def all_ready(servers: str) -> None:
        if count > 1:
            click.echo(f"In other terminals, so that commands also work while a node is down:\n{EXPORT}{servers}")
        console.start(servers)

    async def supervise() -> bool:
        supervisor = Supervisor(nodes, command=command, tell=click.echo, log=log, restart=restart, all_ready=all_ready)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, supervisor.stop)
        return await supervisor.run()

    if not asyncio.run(supervise()):
        raise SystemExit(1)
    click.echo("stopped cleanly")
