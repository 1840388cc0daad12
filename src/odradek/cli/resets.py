"""`odradek group reset`: changes the committed offsets of a group without members."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from odradek.cli.consent import Consent, destructive
from odradek.cli.diagnosis import patiently, require_leaders
from odradek.cli.names import complete_topics, group_argument
from odradek.cli.offsets import Place, parse_place
from odradek.cli.output import output_option, print_rows
from odradek.cli.remote import (
    NOT_FOUND,
    REQUEST_TIMEOUT_S,
    admin_client,
    bootstrap_option,
    client_config,
    fail,
    refusals_told,
    require_partitions,
    require_topics,
)

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition
    from confluent_kafka.admin import AdminClient, TopicMetadata

Position = tuple[str, int]


@click.command("reset")
@bootstrap_option
@output_option
@group_argument()
@click.option("--to", required=True, help="beginning, end, N, @TIME; +N or -N relative to the committed offset.")
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:0,1]",
    help="Only this topic, or these partitions of it. [default: all that the group committed]",
    shell_complete=complete_topics,
)
@destructive
def reset(bootstrap: str, output: str, group: str, to: str, topics: tuple[str, ...], consent: Consent) -> None:
    """Change the committed offsets of a group without members."""
    shift = int(to) if re.fullmatch(r"[+-]\d+", to) else None
    begin = Place("beginning") if shift is not None else parse_place(to, datetime.now(UTC), "--to")
    with refusals_told(bootstrap):
        admin = admin_client(bootstrap)
        committed = committed_offsets(bootstrap, admin, group)
        consumer = _reader(bootstrap)
        try:
            known = consumer.list_topics(timeout=REQUEST_TIMEOUT_S)
            wanted = _wanted(known.topics, topics, committed)
            require_leaders(bootstrap, known, wanted)
            if not wanted:
                fail(f'group "{group}" has no committed offsets. Name topics with --topic', NOT_FOUND)
            targets = {place: _target(consumer, place, committed.get(place), begin, shift) for place in wanted}
        finally:
            consumer.close()
        rows = [
            {"topic": topic, "partition": index, "was": committed.get((topic, index)), "now": offset}
            for (topic, index), offset in targets.items()
        ]
        if not consent.is_given:
            print_rows(rows, output, nothing="")
        if not consent.to(f"Change the committed offsets of group {group}?"):
            return
        _store(admin, group, targets)
    if consent.is_given:
        print_rows(rows, output, nothing="")
    if output == "table":
        click.echo(f"group {group} was reset", err=True)


def committed_offsets(bootstrap: str, admin: AdminClient, group: str) -> dict[Position, int]:
    from confluent_kafka import ConsumerGroupTopicPartitions

    asked = [ConsumerGroupTopicPartitions(group)]
    answer = patiently(bootstrap, admin.list_consumer_group_offsets(asked, request_timeout=REQUEST_TIMEOUT_S)[group])
    return {(tp.topic, tp.partition): tp.offset for tp in answer.topic_partitions if tp.offset >= 0}


def _reader(bootstrap: str) -> Consumer:
    from confluent_kafka import Consumer

    return Consumer(client_config(bootstrap, **{"group.id": "odradek-reset", "enable.auto.commit": False}))


def _wanted(
    known: Mapping[str, TopicMetadata], topics: tuple[str, ...], committed: dict[Position, int]
) -> list[Position]:
    if not topics:
        return sorted(committed)
    wanted: list[Position] = []
    for text in topics:
        topic, _, numbers = text.partition(":")
        require_topics([topic], known)
        chosen = _numbers(numbers, text) if numbers else sorted(known[topic].partitions)
        require_partitions(topic, chosen, known[topic].partitions)
        wanted += [(topic, index) for index in chosen]
    return wanted


def _numbers(text: str, said: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise click.BadParameter(f"{said!r}: use TOPIC or TOPIC:0,1", param_hint="--topic") from None


def _target(consumer: Consumer, place: Position, was: int | None, begin: Place, shift: int | None) -> int:
    from confluent_kafka import TopicPartition

    tp = TopicPartition(*place)
    first, end = consumer.get_watermark_offsets(tp, timeout=REQUEST_TIMEOUT_S)
    offset = (
        begin.resolve(consumer, tp, REQUEST_TIMEOUT_S) if shift is None else (first if was is None else was) + shift
    )
    if offset > end:
        _warn_of(place, offset, f"is beyond the end of the log; using the end offset {end}")
    elif offset < first:
        _warn_of(place, offset, f"is before the start of the log; using the start offset {first}")
    return int(max(first, min(offset, end)))


def _warn_of(place: Position, offset: int, what: str) -> None:
    click.echo(f"Warning: {place[0]}-{place[1]}: offset {offset} {what}", err=True)


def _store(admin: AdminClient, group: str, targets: dict[Position, int]) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

    places: list[TopicPartition] = [TopicPartition(*place, offset) for place, offset in targets.items()]
    asked = [ConsumerGroupTopicPartitions(group, places)]
    told = admin.alter_consumer_group_offsets(asked, request_timeout=REQUEST_TIMEOUT_S)[group].result()
    for tp in told.topic_partitions:
        if tp.error is not None and tp.error.code() == KafkaError.UNKNOWN_MEMBER_ID:
            fail(
                f'group "{group}" has members. Stop them first; list them with: odradek group members {group}\n'
                "A crashed member counts until its session times out, after 45 s by default."
            )
        if tp.error is not None:
            raise KafkaException(tp.error)
