"""`odradek doctor`: checks this machine and the cluster, the most frequent problems first."""

from __future__ import annotations

import resource
import shutil
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from odradek.cli import quorum
from odradek.cli.health import of_quorum
from odradek.cli.output import output_option, print_rows
from odradek.cli.remote import FAILED, REQUEST_TIMEOUT_S, bootstrap_option, silent_logger
from odradek.client.addresses import Address, parse_addresses
from odradek.client.knocking import refusal
from odradek.client.wire import NoAnswer

if TYPE_CHECKING:
    from confluent_kafka.admin import BrokerMetadata, PartitionMetadata

OPEN_FILES_WANTED = 10_000
FREE_SHARE_WANTED = 0.1


class Finding(NamedTuple):
    check: str
    verdict: str  # ok, warning, failed
    told: str
    advice: str = ""


@click.command("doctor")
@bootstrap_option
@output_option
@click.option("--data", type=click.Path(path_type=Path), help="Also check this data directory.")
def command(bootstrap: str, output: str, data: Path | None) -> None:
    """Check this machine and the cluster. Exits with 1 if a check failed."""
    findings = [*_machine(), *([_disk(data)] if data else []), *_cluster(bootstrap)]
    rows = [finding._asdict() for finding in findings]
    if output != "table":
        print_rows(rows, output, nothing="")
    else:
        for finding in findings:
            mark = {"ok": "✓", "warning": "!", "failed": "✗"}[finding.verdict]
            click.echo(
                f"{mark} {finding.check}: {finding.told}" + (f"\n    {finding.advice}" if finding.advice else "")
            )
    if any(finding.verdict == "failed" for finding in findings):
        raise SystemExit(FAILED)


def _machine() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("Python", "ok", version)
    yield Finding("librdkafka", "ok", f"confluent-kafka {metadata.version('confluent-kafka')}")
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < OPEN_FILES_WANTED:
        yield Finding(
            "open files",
            "warning",
            f"a process may open {soft} files",
            f"a broker with many partitions needs more: `ulimit -n {OPEN_FILES_WANTED}`, or LimitNOFILE= of systemd",
        )
    else:
        yield Finding("open files", "ok", f"a process may open {soft} files")
    yield from _spark()


def _spark() -> Iterator[Finding]:
    if find_spec("pyspark") is None:
        yield Finding("Spark", "warning", "not installed", "pipelines need it: pip install 'odradek[spark]'")
        return
    from odradek.spark.java import NoJava, find_java

    yield Finding("Spark", "ok", f"pyspark {metadata.version('pyspark')}")
    try:
        yield Finding("Java", "ok", str(find_java()))
    except NoJava as missing:
        yield Finding("Java", "warning", "not found", str(missing))


def _disk(data: Path) -> Finding:
    if not data.is_dir():
        return Finding(
            "data directory", "failed", f"{data} is not a directory", "use the directory of `odradek up --data`"
        )
    usage = shutil.disk_usage(data)
    told = f"{usage.free / 1e9:.1f} GB of {usage.total / 1e9:.1f} GB are free under {data}"
    if usage.free < usage.total * FREE_SHARE_WANTED:
        return Finding("data directory", "warning", told, "delete topics, or lower retention.ms or retention.bytes")
    return Finding("data directory", "ok", told)


def _cluster(bootstrap: str) -> Iterator[Finding]:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    named = parse_addresses(bootstrap)
    unreachable = [(address, why) for address in named if (why := refusal(address))]
    for address, why in unreachable:
        yield Finding(
            "bootstrap",
            "failed",
            f"{address}: {why}",
            "is a broker running there? start one with `odradek up`, or name another with -b HOST:PORT",
        )
    if len(unreachable) == len(named):
        return
    try:
        told = AdminClient({"bootstrap.servers": bootstrap}, logger=silent_logger()).list_topics(
            timeout=REQUEST_TIMEOUT_S
        )
    except KafkaException as refused:
        yield Finding(
            "cluster",
            "failed",
            refused.args[0].str(),
            "a server accepts connections there, but does not speak the Kafka protocol",
        )
        return
    topics = sum(not name.startswith("__") for name in told.topics)
    sizes = f"{_counted(len(told.brokers), 'broker')}, {_counted(topics, 'topic')}"
    yield Finding("cluster", "ok", f"{told.cluster_id}: {sizes}")
    yield from _majority(bootstrap)
    away = {broker.id: why for broker in told.brokers.values() if (why := refusal(Address(broker.host, broker.port)))}
    yield from _advertised(told.brokers, away)
    yield _copies([partition for topic in told.topics.values() for partition in topic.partitions.values()], away)


def _majority(bootstrap: str) -> Iterator[Finding]:
    try:
        state = quorum.state(bootstrap)
    except NoAnswer as unknown:  # such as an old Kafka
        yield Finding("metadata quorum", "warning", str(unknown))
        return
    for sentence in of_quorum(state):
        verdict = "warning" if state.leader is not None else "failed"
        advice = "start the nodes that are down, or find out why the others cannot reach them" if state.absent else ""
        yield Finding("metadata quorum", verdict, sentence, advice)
    if state.leader is not None and not state.absent:
        yield Finding("metadata quorum", "ok", f"node {state.leader} leads, {_counted(len(state.voters), 'voter')}")


def _advertised(brokers: Mapping[int, BrokerMetadata], away: Mapping[int, str]) -> Iterator[Finding]:
    for broker_id, why in sorted(away.items()):
        where = f"{brokers[broker_id].host}:{brokers[broker_id].port}"
        yield Finding(
            "advertised listener",
            "failed",
            f"broker {broker_id} advertises {where}, which cannot be reached from here: {why}",
            "is it running? if it is, set advertised.listeners to a name that clients can resolve and reach",
        )


def _copies(partitions: Sequence[PartitionMetadata], away: Container[int]) -> Finding:
    lost = sum(partition.leader in away for partition in partitions)
    if lost:
        return Finding(
            "partitions",
            "failed",
            f"{lost} of {len(partitions)} have a leader that cannot be reached",
            "`odradek cluster health` lists them",
        )
    leaderless = sum(partition.leader < 0 for partition in partitions)
    lacking = sum(len(partition.isrs) < len(partition.replicas) for partition in partitions)
    if leaderless:
        return Finding(
            "partitions",
            "failed",
            f"{leaderless} of {len(partitions)} have no leader",
            "`odradek cluster health` lists them",
        )
    if lacking:
        return Finding(
            "partitions",
            "warning",
            f"{lacking} of {len(partitions)} are under-replicated",
            "`odradek cluster health` lists them",
        )
    return Finding(
        "partitions", "ok", f"all {len(partitions)}, internal topics included, have a leader and all replicas in sync"
    )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
