"""Requests about groups that several commands make."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from odradek.cli.diagnosis import patiently
from odradek.cli.remote import NOT_FOUND, REQUEST_TIMEOUT_S, fail, unknown_group

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, ConsumerGroupDescription, ConsumerGroupListing


def all_groups(bootstrap: str, admin: AdminClient) -> list[ConsumerGroupListing]:
    """Fails if a broker did not answer, because the groups that it coordinates would be missing."""
    from confluent_kafka import KafkaException

    listed = patiently(bootstrap, admin.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S))
    if listed.errors:
        raise KafkaException(listed.errors[0])
    return sorted(listed.valid, key=lambda group: group.group_id)


def described_group(bootstrap: str, admin: AdminClient, group: str) -> ConsumerGroupDescription:
    asked = admin.describe_consumer_groups([group], request_timeout=REQUEST_TIMEOUT_S)
    return patiently(bootstrap, asked[group])


def described_groups(bootstrap: str, admin: AdminClient, groups: list[str]) -> dict[str, ConsumerGroupDescription]:
    if not groups:
        return {}
    asked = admin.describe_consumer_groups(groups, request_timeout=REQUEST_TIMEOUT_S)
    return {group: patiently(bootstrap, answer) for group, answer in asked.items()}


def owners(described: ConsumerGroupDescription) -> dict[tuple[str, int], str]:
    """The client id of the member that each partition is assigned to."""
    return {
        (tp.topic, tp.partition): member.client_id
        for member in described.members
        for tp in (member.assignment.topic_partitions if member.assignment else [])
    }


def no_group(group: str) -> NoReturn:
    fail(unknown_group().format(group), NOT_FOUND)
