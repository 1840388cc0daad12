"""`odradek group lag`: the lag of groups in records and seconds, with Burrow's status. The exit code is the status."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from odradek.cli.group_requests import all_groups, described_groups, no_group, owners
from odradek.cli.names import group_argument
from odradek.cli.output import output_option, print_rows
from odradek.cli.remote import admin_client, bootstrap_option, refusals_told
from odradek.cli.resets import committed_offsets

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from odradek.monitor.lag.cluster_lag import PartitionLag
    from odradek.watch.recent_lag import RecentLag

Place = tuple[str, int]
FETCH_WAIT_MS = 20

# As monitoring plug-ins exit: 0 OK, 1 WARN, 2 ERR.
EXIT_CODES = {"OK": 0, "WARN": 1, "STOP": 2, "STALL": 2, "REWIND": 2}
NO_TREND = (
    "{}: its last commits are no longer in __consumer_offsets, and one snapshot gives no status and no trend. "
    "`odradek monitor` keeps a history"
)
NO_COMMIT = "{}: no committed offset, so no lag, in partitions of its members: {}"
NAMED_MAX = 10


@click.command("lag")
@bootstrap_option
@output_option
@click.option("-p", "--partitions", is_flag=True, help="Show each partition instead of sums by topic.")
@click.option(
    "-w", "--watch", "every_s", type=click.FloatRange(min=0.1), metavar="SECONDS", help="Repeat until Ctrl-C."
)
@group_argument("groups", many=True, required=False)
def lag(bootstrap: str, output: str, partitions: bool, every_s: float | None, groups: tuple[str, ...]) -> None:
    """Show the lag of GROUPS, or of all groups, with Burrow's status.

    OK; WARN: the lag never decreases; STOP: no commits any more; STALL: commits, but no progress; REWIND: an earlier
    offset was committed. Exits 1 for WARN, and 2 for STOP, STALL and REWIND.
    """
    with refusals_told(bootstrap), _asked(bootstrap, groups) as lags:
        try:
            code = _show(lags, groups, output, partitions=partitions)
            while every_s is not None:
                time.sleep(every_s)
                click.echo("", err=True)
                code = _show(lags, groups, output, partitions=partitions)
        except KeyboardInterrupt:
            pass
    raise SystemExit(code)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lags:
    bootstrap: str
    admin: AdminClient
    recent: RecentLag


@contextmanager
def _asked(bootstrap: str, groups: Sequence[str]) -> Iterator[_Lags]:
    from odradek.coordinator.placing import partition_of
    from odradek.watch.cluster_client import ClusterClient
    from odradek.watch.recent_lag import RecentLag

    admin = admin_client(bootstrap)
    client = ClusterClient(bootstrap, {}, fetch_wait_ms=FETCH_WAIT_MS)
    try:

        def partitions(count: int) -> list[int]:
            return [partition_of(group, count) for group in groups] or list(range(count))

        yield _Lags(bootstrap=bootstrap, admin=admin, recent=RecentLag(client, partitions))
    finally:
        client.close()


def _show(lags: _Lags, named: Sequence[str], output: str, *, partitions: bool) -> int:
    """Returns the exit code."""
    groups = list(dict.fromkeys(named)) or [each.group_id for each in all_groups(lags.bootstrap, lags.admin)]
    committed = {group: committed_offsets(lags.bootstrap, lags.admin, group) for group in groups}
    described = described_groups(lags.bootstrap, lags.admin, groups)
    for group in named:
        if not committed[group] and described[group].state.name == "DEAD":
            no_group(group)
    offsets_of = {group: dict.fromkeys(owners(described[group])) | offsets for group, offsets in committed.items()}
    places = {place for offsets in offsets_of.values() for place in offsets}
    if places:
        lags.recent.refresh(places)
    rows = []
    for group, offsets in offsets_of.items():
        standings = _standings(lags.recent, group, offsets)
        rows += [
            {"group": group, "topic": topic} | (_one(each[0]) if partitions else _several(each))
            for topic, each in _divided(standings, by_partition=partitions)
        ]
        if any(each.evaluated is None and each.lag for each in standings):
            click.echo(NO_TREND.format(group), err=True)
        without = [f"{each.topic}-{each.partition}" for each in standings if each.committed is None]
        if without and not partitions:
            click.echo(NO_COMMIT.format(group, ", ".join(without[:NAMED_MAX])), err=True)
    print_rows(rows, output, nothing="no group has committed offsets")
    return max((EXIT_CODES[str(row["status"])] for row in rows if row["status"] is not None), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    topic: str
    partition: int
    committed: int | None  # None if a member has the partition, but has not committed an offset
    lag: int | None  # None if the leader does not answer, or without a committed offset
    evaluated: PartitionLag | None  # None without a window of commits


def _standings(recent: RecentLag, group: str, committed: Mapping[Place, int | None]) -> list[_Standing]:
    found = recent.evaluate(group)
    known = {(each.topic, each.partition): each for each in found.partitions if each.commits} if found else {}
    ends = {place: recent.end(place) for place in committed}
    return [
        _Standing(
            topic=place[0],
            partition=place[1],
            committed=offset,
            lag=None if (end := ends[place]) is None or offset is None else max(end - offset, 0),
            evaluated=known.get(place),
        )
        for place, offset in sorted(committed.items())
    ]


def _divided(standings: Sequence[_Standing], *, by_partition: bool) -> list[tuple[str, list[_Standing]]]:
    if by_partition:
        return [(each.topic, [each]) for each in standings]
    topics = dict.fromkeys(each.topic for each in standings)
    return [(topic, [each for each in standings if each.topic == topic]) for topic in topics]


def _one(standing: _Standing) -> dict[str, object]:
    place = {"partition": standing.partition, "committed": standing.committed}
    return {**place, "lag": standing.lag, **_figures([standing])}


def _several(standings: Sequence[_Standing]) -> dict[str, object]:
    known = [each.lag for each in standings if each.lag is not None]
    return {"partitions": len(standings), "lag": sum(known) if known else None, **_figures(standings)}


def _figures(standings: Sequence[_Standing]) -> dict[str, object]:
    from odradek.monitor.lag.cluster_lag import GroupLag
    from odradek.monitor.lag.trend import trend

    evaluated = [each.evaluated for each in standings if each.evaluated is not None]
    if not evaluated:
        return {"seconds": None, "status": None, "trend": None, "catch_up_seconds": None}
    together = GroupLag(group="", partitions=evaluated)
    return {
        "seconds": round(together.age.seconds, 1),
        "status": max(each.status for each in evaluated).name,
        "trend": trend(sum(each.lag or 0 for each in standings), together.per_second).value,
        "catch_up_seconds": None if (needed := together.catch_up_s) is None else round(needed, 1),
    }
