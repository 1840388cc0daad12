"""`odradek node`: formats and starts a cluster node from a properties file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from odradek.cli.groups import Group
from odradek.cli.imports import uncollected
from odradek.cli.log_format import log_format_option
from odradek.cli.reasons import reason
from odradek.cli.remote import fail

if TYPE_CHECKING:
    from odradek.node.config import NodeConfig
    from odradek.node.format import Formatting

config_option = click.option(
    "--config",
    "file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The node's properties, with the keys of Kafka's server.properties.",
)


@click.group("node", cls=Group)
def command() -> None:
    """Format and start a cluster node from a properties file."""


@command.command("start")
@config_option
@click.option("-v", "--verbose", is_flag=True, help="Log each decision, not only warnings.")
@log_format_option
@click.option("--until-stdin-ends", is_flag=True, hidden=True, help="Stop when the parent process is gone.")
def start(file: Path, verbose: bool, log_format: str, until_stdin_ends: bool) -> None:
    """Run a node until Ctrl-C or SIGTERM."""
    with uncollected():
        from odradek.base.errors import KafkaError, UnusableDirectory
        from odradek.node.process import NodeFailed, run_node

    config = _read(file)
    try:
        run_node(
            config,
            Path(config.data_dir),
            announce=click.echo,
            verbose=verbose,
            log_format=log_format,
            lifeline=sys.stdin.fileno() if until_stdin_ends else None,
        )
    except (KafkaError, NodeFailed, UnusableDirectory, OSError) as refused:
        raise click.ClickException(reason(refused)) from refused


@command.command("format")
@config_option
@click.option("-t", "--cluster-id", required=True, help="The same for all nodes. Create one with `odradek cluster id`.")
@click.option("-s", "--standalone", is_flag=True, help="Make this node the only initial voter.")
@click.option(
    "-I",
    "--initial-controllers",
    metavar="ID@HOST:PORT:DIRECTORY-ID,…",
    help="All initial voters, the same on each node. Create directory ids with `odradek cluster id`.",
)
@click.option(
    "-N", "--no-initial-controllers", is_flag=True, help="This node is no initial voter; it may become a voter later."
)
@click.option("--ignore-formatted", is_flag=True, help="Do not fail if the directory is formatted already.")
def format_node(
    file: Path,
    cluster_id: str,
    standalone: bool,
    initial_controllers: str | None,
    no_initial_controllers: bool,
    ignore_formatted: bool,
) -> None:
    """Prepare a node's data directory for its first start."""
    from odradek.base.errors import KafkaError, UnusableDirectory
    from odradek.base.ids import uuid_text
    from odradek.node.format import AlreadyFormatted
    from odradek.node.machine import format_on_machine

    config = _read(file)
    chosen = [standalone, initial_controllers is not None, no_initial_controllers]
    if sum(chosen) > 1 or (config.is_controller and not any(chosen)):
        raise click.UsageError("choose one of --standalone, --initial-controllers and --no-initial-controllers")
    try:
        formatting = _formatting(config, cluster_id, standalone, initial_controllers)
        identity = format_on_machine(Path(config.data_dir), config.node_id, formatting)
    except AlreadyFormatted as formatted:
        if not ignore_formatted:
            fail(f"{config.data_dir}: {formatted}. Use --ignore-formatted to leave it as it is")
        click.echo(f"{config.data_dir} is formatted already")
    except (KafkaError, UnusableDirectory, OSError) as refused:
        fail(str(refused))
    else:
        click.echo(
            f"formatted {config.data_dir} for node {identity.node_id} of cluster {identity.cluster_id}, "
            f"directory {uuid_text(identity.directory_id)}"
        )


def _read(file: Path) -> NodeConfig:
    from odradek.base.errors import KafkaError
    from odradek.node.config import NodeConfig

    try:
        text = file.read_text()
        return NodeConfig.from_toml(text) if file.suffix == ".toml" else NodeConfig.from_properties(text)
    except (KafkaError, ValueError) as refused:
        told = refused.message if isinstance(refused, KafkaError) else str(refused)
        fail("\n".join(f"{file}: {line}" for line in told.splitlines()))


def _formatting(config: NodeConfig, cluster_id: str, standalone: bool, initial_controllers: str | None) -> Formatting:
    from odradek.node import format as directories
    from odradek.node.initial_voters import own_endpoints, parse_initial_voters, require_agreement
    from odradek.node.machine import machine_rng

    directories.require_cluster_id(cluster_id)
    if initial_controllers is not None:
        voters = parse_initial_voters(initial_controllers, config.controller_listener_name)
        require_agreement(voters, config)
        return directories.among(config.node_id, voters, cluster_id=cluster_id)
    if standalone:
        if not config.is_controller:
            raise click.UsageError("--standalone is for a controller, but process.roles of this node has none")
        return directories.standalone(
            config.node_id, machine_rng(), cluster_id=cluster_id, controller_endpoints=own_endpoints(config)
        )
    return directories.joining(machine_rng(), cluster_id=cluster_id)
