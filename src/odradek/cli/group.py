"""`odradek group`: shows, resets and deletes consumer groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from odradek.cli.consent import Consent, destructive
from odradek.cli.diagnosis import each_told, patiently
from odradek.cli.group_lag import lag
from odradek.cli.group_requests import all_groups, described_group, no_group, owners
from odradek.cli.groups import Group
from odradek.cli.names import group_argument
from odradek.cli.output import output_option, print_rows
from odradek.cli.remote import (
    REQUEST_TIMEOUT_S,
    admin_client,
    bootstrap_option,
    refusals_told,
    unknown_group,
)
from odradek.cli.resets import committed_offsets, reset

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient


REFUSED_DELETION = {
    "NON_EMPTY_GROUP": 'group "{0}" has members. Stop them first; list them with: odradek group members {0}',
}


@click.group("group", cls=Group)
def command() -> None:
    """List, describe, reset and delete consumer groups."""


command.add_command(reset)
command.add_command(lag)


@command.command("ls")
@bootstrap_option
@output_option
def list_groups(bootstrap: str, output: str) -> None:
    """List the groups with their state."""
    with refusals_told(bootstrap):
        groups = all_groups(bootstrap, admin_client(bootstrap))
    rows = [{"group": group.group_id, "state": group.state.name.lower()} for group in groups]
    print_rows(rows, output, nothing="no groups")


@command.command()
@bootstrap_option
@output_option
@group_argument()
def describe(bootstrap: str, output: str, group: str) -> None:
    """Show each partition's committed offset, end offset (of the next record), lag and owner."""
    with refusals_told(bootstrap):
        admin = admin_client(bootstrap)
        described = described_group(bootstrap, admin, group)
        positions = committed_offsets(bootstrap, admin, group)
        if described.state.name == "DEAD" and not positions:
            no_group(group)
        owned = owners(described)
        ends = _log_ends(bootstrap, admin, sorted(positions.keys() | owned.keys()))
    rows = [
        {
            "topic": topic,
            "partition": partition,
            "committed": positions.get((topic, partition)),
            "end": end,
            "lag": end - positions[topic, partition] if (topic, partition) in positions else None,
            "owner": owned.get((topic, partition)),
        }
        for (topic, partition), end in ends.items()
    ]
    if output == "table":
        members = len(described.members)
        click.echo(f"{group}: {described.state.name.lower()}, {members} member{'' if members == 1 else 's'}", err=True)
    print_rows(rows, output, nothing="no partitions assigned, no offsets committed")


def _log_ends(bootstrap: str, admin: AdminClient, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec

    from odradek.client.listed_offsets import offset_in

    if not partitions:
        return {}
    asked = {TopicPartition(topic, index): OffsetSpec.latest() for topic, index in partitions}
    answers = admin.list_offsets(asked, request_timeout=REQUEST_TIMEOUT_S)
    return {
        (tp.topic, tp.partition): offset_in(patiently(bootstrap, answer))
        for tp, answer in sorted(answers.items(), key=_name)
    }


def _name(item: tuple[TopicPartition, object]) -> tuple[str, int]:
    return item[0].topic, item[0].partition


@command.command()
@bootstrap_option
@output_option
@group_argument()
def members(bootstrap: str, output: str, group: str) -> None:
    """Show the members of a group with their hosts and partitions."""
    with refusals_told(bootstrap):
        admin = admin_client(bootstrap)
        described = described_group(bootstrap, admin, group)
    if described.state.name == "DEAD":
        no_group(group)
    rows = [
        {
            "member": member.member_id,
            "client": member.client_id,
            "host": member.host,
            "instance": member.group_instance_id,
            "partitions": [
                f"{tp.topic}-{tp.partition}" for tp in (member.assignment.topic_partitions if member.assignment else [])
            ],
        }
        for member in described.members
    ]
    print_rows(rows, output, nothing=f"{group} is {described.state.name.lower()}: it has no members")


@command.command()
@bootstrap_option
@group_argument("groups", many=True)
@destructive
def delete(bootstrap: str, groups: tuple[str, ...], consent: Consent) -> None:
    """Delete groups that have no members, with their committed offsets."""
    wanted = list(dict.fromkeys(groups))
    with refusals_told(bootstrap):
        admin = admin_client(bootstrap)
        if not consent.is_given:
            consent.show([_losses(bootstrap, admin, group) for group in wanted])
        if consent.to(f"Delete {', '.join(wanted)} with all committed offsets?"):
            answers = admin.delete_consumer_groups(wanted, request_timeout=REQUEST_TIMEOUT_S)
            each_told(
                bootstrap, answers, "deleted {}", refused={"GROUP_ID_NOT_FOUND": unknown_group(), **REFUSED_DELETION}
            )


def _losses(bootstrap: str, admin: AdminClient, group: str) -> str:
    state = described_group(bootstrap, admin, group).state.name.lower()
    if state == "dead":
        no_group(group)
    offsets = len(committed_offsets(bootstrap, admin, group))
    return f"delete {group}: {state}, {offsets} committed offset{'' if offsets == 1 else 's'}"
