"""`odradek cluster`: brokers, metadata quorum, health, reassignments and elections."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import click

from odradek.cli.consent import Consent, destructive
from odradek.cli.groups import Group
from odradek.cli.output import output_option, print_rows
from odradek.cli.remote import REQUEST_TIMEOUT_S, admin_client, bootstrap_option, complain, refusals_told

if TYPE_CHECKING:
    from odradek.cli.health import PartitionState, QuorumState
    from odradek.protocol.messages.p60_describe_cluster import DescribeClusterResponse

PARTITION_FORM = "TOPIC:PARTITION"
NEW_VOTER_FORM, VOTER_FORM = "ID@HOST:PORT[:DIRECTORY-ID]", "ID[:DIRECTORY-ID]"
TOPIC_RESOURCE, MIN_IN_SYNC = 2, "min.insync.replicas"


@click.group("cluster", cls=Group)
def command() -> None:
    """Show and change brokers, metadata quorum and partition placement."""


@command.command("id")
def new_id() -> None:
    """Print a random id, for a new cluster or a directory."""
    from odradek.base.ids import random_uuid, uuid_text
    from odradek.node.machine import machine_rng

    click.echo(uuid_text(random_uuid(machine_rng())))


@command.command("info")
@bootstrap_option
@output_option
def info(bootstrap: str, output: str) -> None:
    """Show the metadata leader, and each broker's address, state and partition counts."""
    from odradek.cli import quorum
    from odradek.cli.asking import ask
    from odradek.protocol.messages.p60_describe_cluster import DescribeClusterRequest, DescribeClusterResponse

    described = ask(bootstrap, DescribeClusterRequest(include_fenced_brokers=True), 2, DescribeClusterResponse)
    voters = quorum.described(bootstrap)
    partitions = _partitions(bootstrap)
    leads, keeps = (
        Counter(p.leader for p in partitions),
        Counter(replica for p in partitions for replica in p.replicas),
    )
    silent = _silent(voters, described)
    if output == "table":
        click.echo(f"cluster {described.cluster_id}, {_leadership(voters)}")
    rows = [
        {
            "broker": broker.broker_id,
            "address": f"{broker.host}:{broker.port}",
            "rack": broker.rack,
            "state": "no answer" if broker.broker_id in silent else "fenced" if broker.is_fenced else "alive",
            "leads": leads[broker.broker_id],
            "replicas": keeps[broker.broker_id],
        }
        for broker in sorted(described.brokers, key=lambda each: each.broker_id)
    ]
    print_rows(rows, output, nothing="no broker is registered")


@command.command("health")
@bootstrap_option
def health(bootstrap: str) -> None:
    """Report problems of the cluster. Exits with 1 if there are any. Disks that fill up are only shown."""
    from odradek.cli import quorum
    from odradek.cli.asking import ask
    from odradek.cli.brokers import directories
    from odradek.cli.health import problems, warnings
    from odradek.protocol.messages.p60_describe_cluster import DescribeClusterRequest, DescribeClusterResponse

    described = ask(bootstrap, DescribeClusterRequest(include_fenced_brokers=True), 2, DescribeClusterResponse)
    voters = quorum.described(bootstrap)
    partitions = _partitions(bootstrap, with_min_in_sync=True)
    fenced = sorted(broker.broker_id for broker in described.brokers if broker.is_fenced)
    asked = directories(broker for broker in described.brokers if not broker.is_fenced)
    silent = [broker for broker, answer in asked.items() if answer is None]
    disks = {broker: answer for broker, answer in asked.items() if answer is not None}
    found = list(problems(voters, fenced, partitions, silent, disks))
    alive = len(described.brokers)
    well = (
        f"healthy: {alive} of {alive} brokers alive, {len(voters.present)} of {len(voters.voters)} voters following, "
        f"{len(partitions)} partitions with a leader and all replicas in sync"
    )
    for sentence in [*(found or [well]), *warnings(disks)]:
        click.echo(sentence)
    if found:
        raise SystemExit(1)


@command.command("quorum")
@bootstrap_option
@output_option
def show_quorum(bootstrap: str, output: str) -> None:
    """Show the metadata quorum: leader, voters, observers, and the lag of each."""
    from odradek.base.ids import uuid_text
    from odradek.cli import quorum

    state = quorum.of_leader(bootstrap)
    leader = quorum.leader_of(state)
    if output == "table":
        click.echo(f"epoch {state.leader_epoch}, high watermark {state.high_watermark}")
    rows = [
        {
            "node": replica.replica_id,
            "role": "leader" if replica is leader else role,
            "directory": uuid_text(replica.replica_directory_id),
            "end": replica.log_end_offset,
            "lag": leader.log_end_offset - replica.log_end_offset,
            "silent_ms": quorum.silent_ms(replica, state),
        }
        for role, replicas in (("voter", state.current_voters), ("observer", state.observers))
        for replica in sorted(replicas, key=lambda each: each.replica_id)
    ]
    print_rows(rows, output, nothing="no voters")


@command.group("voter")
def voter() -> None:
    """Add or remove voters of the metadata quorum. `odradek cluster quorum` lists them."""


timeout_option = click.option(
    "--timeout", "timeout_s", default=30.0, show_default=True, metavar="SECONDS", help="How long to wait."
)


@voter.command("add")
@bootstrap_option
@timeout_option
@click.argument("controller", metavar=NEW_VOTER_FORM)
def add_voter(bootstrap: str, timeout_s: float, controller: str) -> None:
    """Make a running controller a voter. HOST:PORT is its controller listener.

    Waits until the controller has caught up. Example: `odradek cluster voter add 3@three.example:9093`
    """
    from odradek.cli import voters

    voters.add(bootstrap, voters.new_voter(controller), timeout_s)


@voter.command("remove")
@bootstrap_option
@timeout_option
@click.argument("controller", metavar=VOTER_FORM)
@destructive
def remove_voter(bootstrap: str, timeout_s: float, controller: str, consent: Consent) -> None:
    """Remove a voter, whether it is up or down. Refused unless a majority of the other voters is up."""
    from odradek.cli import voters

    voters.remove(bootstrap, *voters.known_voter(controller), timeout_s, consent)


@command.command("reassign")
@bootstrap_option
@output_option
@click.argument("moves", nargs=-1, metavar=f"[{PARTITION_FORM}=BROKER,BROKER,…]...")
@click.option("--cancel", multiple=True, metavar=PARTITION_FORM, help="Cancel the move of this partition; repeatable.")
def reassign(bootstrap: str, output: str, moves: tuple[str, ...], cancel: tuple[str, ...]) -> None:
    """Move partitions to other brokers. Without arguments, list the partitions that are moving.

    The first broker is the preferred leader. Example: `odradek cluster reassign orders:0=1,2,3 orders:1=2,3,1`
    """
    from odradek.cli import reassignments

    wanted: dict[tuple[str, int], list[int] | None] = {_partition(text): None for text in cancel}
    wanted |= dict(_move(text) for text in moves)
    if not wanted:
        print_rows(reassignments.under_way(bootstrap), output, nothing="nothing is moving")
        return
    refusals = reassignments.ask_for(bootstrap, wanted)
    for (topic, index), replicas in wanted.items():
        refusal = refusals.get((topic, index))
        if refusal:
            complain(f"{topic}-{index}: {refusal}")
        elif replicas is None:
            click.echo(f"{topic}-{index} keeps its replicas: the move is cancelled")
        else:
            click.echo(f"{topic}-{index} moves to {','.join(map(str, replicas))}")
    if refusals:
        raise SystemExit(1)


@command.command("elect")
@bootstrap_option
@click.argument("partitions", nargs=-1, metavar=f"[{PARTITION_FORM}]...")
@click.option(
    "--unclean",
    is_flag=True,
    help="If no in-sync replica is left, elect one that may lack acknowledged records. Those records are lost.",
)
@destructive
def elect(bootstrap: str, partitions: tuple[str, ...], unclean: bool, consent: Consent) -> None:
    """Elect the preferred leaders of the named partitions, or of all partitions.

    Only --unclean asks for confirmation; --yes and --dry-run apply only to it.
    """
    from odradek.cli import elections

    named = [_partition(text) for text in partitions]
    if unclean and not named:
        raise click.UsageError("an unclean election can lose records: name the partitions")
    if consent.dry_run and not unclean:
        raise click.UsageError("--dry-run is for --unclean: a preferred election loses nothing")
    if unclean:
        names = [f"{topic}-{index}" for topic, index in named]
        consent.show(
            f"elect an unclean leader of {each}: records that only other replicas have are lost" for each in names
        )
        if not consent.to(f"Elect unclean leaders of {', '.join(names)} and lose these records?"):
            return
    outcomes = elections.elect(bootstrap, elections.UNCLEAN if unclean else elections.PREFERRED, named)
    refused = False
    internal: Counter[str] = Counter()
    for (topic, index), outcome in sorted(outcomes.items()):
        if outcome not in (elections.ELECTED, elections.NOT_NEEDED):
            refused = True
            complain(f"{topic}-{index}: {outcome}")
        elif named or not topic.startswith("__"):
            click.echo(f"{topic}-{index} {outcome}")
        else:
            internal[topic] += 1
    for topic, count in internal.items():
        click.echo(f"{count} partition{' has' if count == 1 else 's have'} a new leader: {topic}")
    if not outcomes:
        click.echo("every partition is led by its preferred replica already")
    if refused:
        raise SystemExit(1)


def _leadership(voters: QuorumState) -> str:
    if voters.leader is not None:
        return f"metadata led by node {voters.leader}, {len(voters.voters)} voting"
    return f"no metadata leader, {len(voters.present)} of {len(voters.voters)} voters can be reached"


def _silent(voters: QuorumState, described: DescribeClusterResponse) -> list[int]:
    """Brokers that accept no connection. Only checked without a metadata leader: then dead brokers are not fenced."""
    from odradek.cli.asking import unreachable

    if voters.leader is not None:
        return []
    return unreachable({broker.broker_id: (broker.host, broker.port) for broker in described.brokers})


def _partition(text: str) -> tuple[str, int]:
    matched = re.fullmatch(r"([a-zA-Z0-9._-]+):([0-9]{1,9})", text)
    if not matched:
        raise click.BadParameter(f"{text!r} is not {PARTITION_FORM}")
    return matched[1], int(matched[2])


def _move(text: str) -> tuple[tuple[str, int], list[int]]:
    partition, _, brokers = text.partition("=")
    if not re.fullmatch(r"[0-9]{1,9}(,[0-9]{1,9})*", brokers):
        raise click.BadParameter(f"{text!r} is not {PARTITION_FORM}=BROKER,BROKER,…")
    return _partition(partition), [int(broker) for broker in brokers.split(",")]


def _partitions(bootstrap: str, *, with_min_in_sync: bool = False) -> list[PartitionState]:
    from odradek.cli.health import PartitionState

    with refusals_told(bootstrap):
        topics = admin_client(bootstrap).list_topics(timeout=REQUEST_TIMEOUT_S).topics
        suspects = [
            name
            for name, topic in topics.items()
            if any(len(each.isrs) < len(each.replicas) for each in topic.partitions.values())
        ]
        minimum = _min_in_sync(bootstrap, suspects) if with_min_in_sync and suspects else {}
    return [
        PartitionState(
            topic=name,
            index=index,
            leader=None if partition.leader < 0 else partition.leader,
            replicas=tuple(partition.replicas),
            in_sync=tuple(partition.isrs),
            min_in_sync=minimum.get(name),
        )
        for name, topic in sorted(topics.items())
        for index, partition in sorted(topic.partitions.items())
    ]


def _min_in_sync(bootstrap: str, topics: list[str]) -> dict[str, int]:
    """Not through librdkafka: it asks only the broker that it takes for the controller, even when that one is dead."""
    from odradek.cli.asking import ask
    from odradek.protocol.messages.p32_describe_configs import (
        DescribeConfigsRequest,
        DescribeConfigsResource,
        DescribeConfigsResponse,
    )

    asked = [
        DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=[MIN_IN_SYNC])
        for topic in topics
    ]
    response = ask(bootstrap, DescribeConfigsRequest(resources=asked), 4, DescribeConfigsResponse)
    return {
        result.resource_name: int(config.value)
        for result in response.results
        for config in result.configs
        if config.value
    }
