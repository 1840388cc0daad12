"""`odradek txn`: shows transactions, aborts them, and finds hanging ones."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NoReturn

import click

from odradek.cli.consent import Consent, destructive
from odradek.cli.groups import Group
from odradek.cli.offsets import UNITS
from odradek.cli.output import output_option, print_rows
from odradek.cli.remote import FAILED, NOT_FOUND, bootstrap_option, fail, require_topics

if TYPE_CHECKING:
    from odradek.base.ids import TopicPartition
    from odradek.cli.txn_requests import Cluster
    from odradek.protocol.messages.p65_describe_transactions import TransactionState

STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
PLACE_FORM = "TOPIC:PARTITION:OFFSET"
# As OLD_MS of the requests, which the console uses.
OLD = "15m"


def duration_ms(_ctx: click.Context, _param: click.Parameter, said: str | None) -> int | None:
    if said is None:
        return None
    matched = re.fullmatch(r"([0-9]{1,9})(ms|s|m|h|d)", said)
    if not matched:
        raise click.BadParameter(f"{said!r} is not a duration such as 500ms, 30s, 15m, 2h or 1d")
    return int(int(matched[1]) * UNITS[matched[2]] * 1000)


@click.group("txn", cls=Group)
def command() -> None:
    """List, describe and abort transactions; find hanging ones."""


@command.command("ls")
@bootstrap_option
@output_option
@click.option("--state", "states", multiple=True, type=click.Choice(STATES), help="Only this state; repeatable.")
@click.option(
    "--open-for", callback=duration_ms, metavar="DURATION", help="Only transactions open for longer, such as 5m."
)
def list_transactions(bootstrap: str, output: str, states: tuple[str, ...], open_for: int | None) -> None:
    """List the transactional ids with the state of their last transaction."""
    from odradek.cli.txn_requests import Cluster

    found = Cluster(bootstrap).listed(states=states, open_for_ms=open_for)
    rows = [
        {
            "transactional_id": each.transactional_id,
            "state": each.state,
            "producer_id": each.producer_id,
            "coordinator": each.coordinator,
        }
        for each in sorted(found, key=lambda each: each.transactional_id)
    ]
    print_rows(rows, output, nothing="no transactions")


@command.command()
@bootstrap_option
@output_option
@click.argument("transactional_ids", nargs=-1, required=True, metavar="TRANSACTIONAL_ID...")
def describe(bootstrap: str, output: str, transactional_ids: tuple[str, ...]) -> None:
    """Show the producer, the state, the timeout, the start and the partitions of transactions."""
    from odradek.cli.txn_requests import Cluster
    from odradek.client.transaction_requests import IDLE

    cluster = Cluster(bootstrap)
    rows = []
    for transactional_id in dict.fromkeys(transactional_ids):
        coordinator, state = _known(cluster, transactional_id)
        is_open = state.transaction_start_time_ms > 0 and state.transaction_state not in IDLE
        rows.append(
            {
                "transactional_id": transactional_id,
                "state": state.transaction_state,
                "producer_id": state.producer_id,
                "epoch": state.producer_epoch,
                "timeout_ms": state.transaction_timeout_ms,
                "started": _moment(state.transaction_start_time_ms) if is_open else None,
                "coordinator": coordinator,
                "partitions": [f"{topic.topic}:{index}" for topic in state.topics for index in topic.partitions],
            }
        )
    print_rows(rows, output, nothing="no transactions")


@command.command()
@bootstrap_option
@click.argument("transactional_id", required=False)
@click.option("--at", "place", metavar=PLACE_FORM, help="Abort the hanging transaction that begins at this offset.")
@destructive
def abort(bootstrap: str, transactional_id: str | None, place: str | None, consent: Consent) -> None:
    """Abort the open transaction of TRANSACTIONAL_ID and fence its producer.

    With --at, write an abort marker into one partition. Only for transactions that `odradek txn find-hanging` shows:
    the marker would tear a transaction that its coordinator still knows.
    """
    from odradek.cli.txn_requests import Cluster

    if (transactional_id is None) == (place is None):
        raise click.UsageError(f"name either a TRANSACTIONAL_ID or --at {PLACE_FORM}")
    cluster = Cluster(bootstrap)
    if place is not None:
        _abort_at(cluster, place, consent)
    elif transactional_id is not None:
        _abort_of(cluster, transactional_id, consent)


def _abort_of(cluster: Cluster, transactional_id: str, consent: Consent) -> None:
    from odradek.client.transaction_requests import nothing_to_abort

    _, state = _known(cluster, transactional_id)
    if why := nothing_to_abort(state.transaction_state):
        fail(f"{transactional_id} {why}")
    partitions = sum(len(topic.partitions) for topic in state.topics)
    count = f"{partitions} partition{'' if partitions == 1 else 's'}"
    consent.show([f"abort the transaction of {transactional_id} in {count}, and fence its producer"])
    if consent.to(f"Abort the transaction of {transactional_id}?"):
        cluster.replace_producer(transactional_id, state.transaction_timeout_ms)
        click.echo(f"aborted the transaction of {transactional_id}; its producer is fenced")


def _abort_at(cluster: Cluster, place: str, consent: Consent) -> None:
    from odradek.base.ids import TopicPartition

    matched = re.fullmatch(r"([a-zA-Z0-9._-]+):([0-9]{1,9}):([0-9]{1,18})", place)
    if not matched:
        raise click.BadParameter(f"{place!r} is not {PLACE_FORM}, such as orders:0:17", param_hint="--at")
    partition, offset = TopicPartition(matched[1], int(matched[2])), int(matched[3])
    cluster.require_leader(partition)
    found, _ = cluster.open_in([partition])
    wrong = next((each for each in found if each.start_offset == offset), None)
    if wrong is None:
        fail(
            f"no open transaction begins at offset {offset} of {matched[1]}:{matched[2]}. "
            f"Find hanging transactions with: odradek txn find-hanging {matched[1]}",
            NOT_FOUND,
        )
    if not cluster.hanging([wrong]):
        owner = _owner(cluster, wrong.producer_id)
        fail(f"the coordinator still knows this transaction. Abort it with: odradek txn abort {owner}")
    consent.show([f"write an abort marker for producer {wrong.producer_id} to {matched[1]}:{matched[2]}"])
    if consent.to(f"Abort the transaction at {place}?"):
        # Meanwhile it may have ended, or its producer may have begun another one, which the marker would tear.
        if wrong not in cluster.open_in([partition])[0] or not cluster.hanging([wrong]):
            fail(f"the transaction at {place} has changed. Look again with: odradek txn find-hanging {matched[1]}")
        cluster.abort_in_partition(wrong)
        click.echo(f"aborted the transaction at {place}")


@command.command("find-hanging")
@bootstrap_option
@output_option
@click.option(
    "--older-than",
    callback=duration_ms,
    default=OLD,
    show_default=True,
    metavar="DURATION",
    help="Only transactions without a record for this time; use at least transaction.max.timeout.ms.",
)
@click.argument("topics", nargs=-1)
def find_hanging(bootstrap: str, output: str, older_than: int, topics: tuple[str, ...]) -> None:
    """Find open transactions that no coordinator will end, in TOPICS or all topics. Exits with 1 if there are any.

    Such a transaction stops read_committed consumers of its partition, and compaction.
    """
    from odradek.cli.txn_requests import Cluster

    cluster = Cluster(bootstrap)
    require_topics(topics, {partition.topic for partition in cluster.leaders})
    searched = [each for each in sorted(cluster.leaders) if not topics or each.topic in topics]
    found, complete = cluster.open_in(searched)
    now_ms = int(time.time() * 1000)
    hanging = cluster.hanging([each for each in found if now_ms - each.last_ms >= older_than])
    rows = [
        {
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            "start_offset": each.start_offset,
            "producer_id": each.producer_id,
            "epoch": each.producer_epoch,
            "coordinator_epoch": each.coordinator_epoch,
            "last_record": _moment(each.last_ms),
        }
        for each in hanging
    ]
    print_rows(rows, output, nothing="no hanging transactions")
    if output == "table":
        for each in hanging:
            click.echo(f"abort it with: odradek txn abort --at {_place(each.partition, each.start_offset)}", err=True)
    if hanging or not complete:
        raise SystemExit(FAILED)


def _owner(cluster: Cluster, producer_id: int) -> str:
    return next(each.transactional_id for each in cluster.listed(producer_ids=[producer_id]))


def _known(cluster: Cluster, transactional_id: str) -> tuple[int, TransactionState]:
    return cluster.described(transactional_id) or _unknown(transactional_id)


def _unknown(transactional_id: str) -> NoReturn:
    from odradek.cli.txn_requests import NO_TRANSACTION

    fail(NO_TRANSACTION.format(transactional_id), NOT_FOUND)


def _place(partition: TopicPartition, offset: int) -> str:
    return f"{partition.topic}:{partition.partition}:{offset}"


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
