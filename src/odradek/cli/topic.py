"""`odradek topic`: creates, shows and deletes topics."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from odradek.cli.consent import Consent, destructive
from odradek.cli.diagnosis import each_told, granted, patiently, require_leaders, silent_leaders
from odradek.cli.groups import Group
from odradek.cli.names import topic_argument
from odradek.cli.offsets import parse_place
from odradek.cli.output import output_option, print_rows
from odradek.cli.remote import (
    REQUEST_TIMEOUT_S,
    admin_client,
    bootstrap_option,
    client_config,
    fail,
    key_value,
    refusals_told,
    require_partitions,
    require_topics,
    unknown_topic,
)


@click.group("topic", cls=Group)
def command() -> None:
    """List, create, describe, trim and delete topics; add partitions."""


@command.command("ls")
@bootstrap_option
@output_option
@click.option("--internal", is_flag=True, help="Include internal topics (names that begin with __).")
def list_topics(bootstrap: str, output: str, internal: bool) -> None:
    """List the topics."""
    with refusals_told(bootstrap):
        topics = admin_client(bootstrap).list_topics(timeout=REQUEST_TIMEOUT_S).topics
    rows = [
        {"topic": name, "partitions": len(topic.partitions), "replicas": len(topic.partitions[0].replicas)}
        for name, topic in sorted(topics.items())
        if internal or not name.startswith("__")
    ]
    print_rows(rows, output, nothing="no topics; create one with `odradek topic create NAME`")


@command.command()
@bootstrap_option
@click.argument("names", nargs=-1, required=True)
@click.option(
    "-p",
    "--partitions",
    default=-1,
    type=click.IntRange(-1),
    help="Number of partitions. [default: the broker's num.partitions]",
)
@click.option(
    "-r",
    "--replication-factor",
    default=-1,
    help="Replicas of each partition. [default: the broker's default.replication.factor]",
)
@click.option("-c", "--config", "configs", multiple=True, metavar="KEY=VALUE", help="A topic config; repeatable.")
@click.option("--if-not-exists", is_flag=True, help="Do not fail if the topic exists.")
def create(
    bootstrap: str,
    names: tuple[str, ...],
    partitions: int,
    replication_factor: int,
    configs: tuple[str, ...],
    if_not_exists: bool,
) -> None:
    """Create topics."""
    from confluent_kafka.admin import NewTopic

    settings = dict(key_value(text) for text in configs)
    wanted = [NewTopic(name, partitions, replication_factor, config=settings) for name in dict.fromkeys(names)]
    with refusals_told(bootstrap):
        admin = admin_client(bootstrap)
        each_told(
            bootstrap,
            admin.create_topics(wanted, request_timeout=REQUEST_TIMEOUT_S),
            "created {}",
            no_error={"TOPIC_ALREADY_EXISTS": "{} exists already"} if if_not_exists else {},
            refused={"TOPIC_ALREADY_EXISTS": 'topic "{}" already exists. Skip topics that exist with --if-not-exists'},
        )


@command.command()
@bootstrap_option
@output_option
@topic_argument("name")
def describe(bootstrap: str, output: str, name: str) -> None:
    """Show each partition's leader, replicas, in-sync replicas, start offset, and end offset (of the next record)."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec

    from odradek.client.listed_offsets import offset_in

    with refusals_told(bootstrap):
        admin = admin_client(bootstrap)
        known = admin.list_topics(timeout=REQUEST_TIMEOUT_S)
        require_topics([name], known.topics)
        topic = known.topics[name]

        # Only the leader knows a partition's offsets: skip partitions without a reachable leader.
        silent = silent_leaders(known, [(name, index) for index in topic.partitions])
        led = [index for index, each in topic.partitions.items() if each.leader >= 0 and each.leader not in silent]

        def offsets(spec: OffsetSpec) -> dict[int, int]:
            asked = {TopicPartition(name, index): spec for index in led}
            if not asked:
                return {}
            answers = admin.list_offsets(asked, request_timeout=REQUEST_TIMEOUT_S)
            return {tp.partition: offset_in(patiently(bootstrap, answer)) for tp, answer in answers.items()}

        first, last = offsets(OffsetSpec.earliest()), offsets(OffsetSpec.latest())
    rows = [
        {
            "partition": index,
            "leader": partition.leader if partition.leader >= 0 else None,
            "replicas": list(partition.replicas),
            "in_sync": list(partition.isrs),
            "start": first.get(index),
            "end": last.get(index),
        }
        for index, partition in sorted(topic.partitions.items())
    ]
    print_rows(rows, output, nothing="")
    for leader in silent:
        broker = known.brokers[leader]
        click.echo(f"Warning: broker {leader} at {broker.host}:{broker.port} does not answer", err=True)


@command.command("add-partitions")
@bootstrap_option
@topic_argument("name")
@click.option("-p", "--partitions", required=True, type=click.IntRange(1), help="The new number of partitions.")
def add_partitions(bootstrap: str, name: str, partitions: int) -> None:
    """Add partitions to a topic. Afterwards a key may map to another partition."""
    from confluent_kafka.admin import NewPartitions

    with refusals_told(bootstrap):
        admin = admin_client(bootstrap)
        known = admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics
        require_topics([name], known)
        count = len(known[name].partitions)
        if partitions <= count:
            fail(
                f'topic "{name}" already has {_partitions(count)}. Partitions cannot be removed; '
                "-p is the new number of all partitions"
            )
        wanted = [NewPartitions(name, partitions)]
        each_told(
            bootstrap,
            admin.create_partitions(wanted, request_timeout=REQUEST_TIMEOUT_S),
            f"{{}} has {partitions} partitions",
            refused={
                "UNKNOWN_TOPIC_OR_PART": unknown_topic(),
                "INVALID_PARTITIONS": f'topic "{{}}" already has {partitions} partitions or more. Partitions cannot be '
                "removed; -p is the new number of all partitions",
            },
        )


@command.command()
@bootstrap_option
@topic_argument("names", many=True)
@destructive
def delete(bootstrap: str, names: tuple[str, ...], consent: Consent) -> None:
    """Delete topics with all their records."""
    wanted = list(dict.fromkeys(names))
    with refusals_told(bootstrap):
        admin = admin_client(bootstrap)
        if not consent.is_given:
            known = admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics
            require_topics(wanted, known)
            consent.show(f"delete {name}: {_partitions(len(known[name].partitions))}, all records" for name in wanted)
        if consent.to(f"Delete {', '.join(wanted)} with all records?"):
            answers = admin.delete_topics(wanted, request_timeout=REQUEST_TIMEOUT_S)
            each_told(bootstrap, answers, "deleted {}", refused={"UNKNOWN_TOPIC_OR_PART": unknown_topic()})


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"


@command.command()
@bootstrap_option
@output_option
@topic_argument("name")
@click.option("--before", required=True, help="beginning, end, N, -N (keep the last N) or @TIME.")
@click.option("-p", "--partition", "partitions", multiple=True, type=int, help="Only this partition; repeatable.")
@destructive
def trim(bootstrap: str, output: str, name: str, before: str, partitions: tuple[int, ...], consent: Consent) -> None:
    """Permanently delete a topic's records before an offset or a time."""
    from confluent_kafka import Consumer, TopicPartition

    place = parse_place(before, datetime.now(UTC), "--before")
    with refusals_told(bootstrap):
        admin = admin_client(bootstrap)
        known = admin.list_topics(timeout=REQUEST_TIMEOUT_S)
        require_topics([name], known.topics)
        require_partitions(name, partitions, known.topics[name].partitions)
        numbers = partitions or sorted(known.topics[name].partitions)
        require_leaders(bootstrap, known, [(name, index) for index in numbers])
        asked = [TopicPartition(name, index) for index in numbers]
        consumer = Consumer(client_config(bootstrap, **{"group.id": "odradek-trim"}))
        try:
            for tp in asked:
                tp.offset = place.resolve(consumer, tp, REQUEST_TIMEOUT_S)
        finally:
            consumer.close()
        consent.show(f"delete the records of {name}-{tp.partition} before offset {tp.offset}" for tp in asked)
        if not consent.to(f"Delete these records of {name}?"):
            return
        answers = admin.delete_records(asked, request_timeout=REQUEST_TIMEOUT_S)
        rows: list[dict[str, object]] = []
        try:
            for where, deleted in granted(
                bootstrap, {f"{name}-{tp.partition}": answer for tp, answer in answers.items()}
            ):
                rows.append({"partition": int(where.rpartition("-")[2]), "start": deleted.low_watermark})
        finally:
            # Also when a partition was refused: the records of the others are deleted already.
            print_rows(rows, output, nothing="no partition confirmed that records were deleted")
