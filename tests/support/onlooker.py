"""Observes a cluster from outside with plain requests instead of a client: leaders, ISRs, controller, coordinator."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stderr, suppress
from dataclasses import dataclass
from typing import TypeVar

from click.testing import CliRunner, Result
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.cli import quorum
from odradek.cli.asking import ask
from odradek.cli.main import main
from odradek.protocol.messages.p03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.protocol.messages.p10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.testing import Embedded
from support.waiting import wait_until

WITHIN_S = 60.0
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        return self.leader >= 0 and sorted(self.replicas) == sorted(self.in_sync)


def eventually(look: Callable[[], R | None], what: str, within_s: float = WITHIN_S) -> R:
    """Calls `look` until its result is true, and returns the result."""
    seen = wait_until(look, what, within_s=within_s)
    assert seen is not None
    return seen


def partitions(cluster: Embedded, topic: str, server: int | None = None) -> Mapping[int, Seen]:
    """The partitions from the metadata of one broker, or of the first that answers. Empty if no broker answers."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    response = _answer(lambda: ask(_where(cluster, server), asked, 8, MetadataResponse))
    return {
        partition.partition_index: Seen(
            leader=partition.leader_id,
            replicas=tuple(partition.replica_nodes),
            in_sync=tuple(partition.isr_nodes),
        )
        for told in (response.topics if response else ())
        for partition in told.partitions
    }


def controller(cluster: Embedded) -> int | None:
    """The leader of the metadata log."""
    state = _answer(lambda: quorum.described(cluster.bootstrap_servers))
    return state.leader if state else None


def coordinator(cluster: Embedded, group: str) -> int:
    def found() -> int | None:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
        response = _answer(lambda: ask(cluster.bootstrap_servers, request, 4, FindCoordinatorResponse))
        return response.coordinators[0].node_id + 1 if response and not response.coordinators[0].error_code else None

    return eventually(found, f"group {group} has no coordinator") - 1


def await_whole(cluster: Embedded, topic: str) -> None:
    """Waits until all replicas are in sync in the metadata of every running broker."""
    brokers = [node_id for node_id, node in cluster.nodes.items() if node.is_running and _serves(cluster, node_id)]

    def whole() -> bool:
        told = [partitions(cluster, topic, server) for server in brokers]
        return all(told) and all(seen.is_whole for each in told for seen in each.values())

    eventually(whole, f"some replica of {topic} does not rejoin the ISR")


def create(
    cluster: Embedded,
    topic: str,
    replicas: int | Sequence[Sequence[int]],
    config: Mapping[str, str] | None = None,
    *,
    copies: int = -1,
    within_s: float = WITHIN_S,
) -> None:
    """Create a topic with a number of partitions, or with given replicas per partition."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    wanted = (
        NewTopic(topic, replicas, copies, config=dict(config or {}))
        if isinstance(replicas, int)
        else NewTopic(
            topic, len(replicas), replica_assignment=[list(each) for each in replicas], config=dict(config or {})
        )
    )
    admin.create_topics([wanted], request_timeout=within_s)[topic].result()
    await_whole(cluster, topic)


def odradek(cluster: Embedded, *arguments: str, server: int | None = None) -> Result:
    """Runs a command of the command line."""
    return CliRunner().invoke(main, arguments, env={"ODRADEK_BOOTSTRAP": _where(cluster, server)})


def start_together(cluster: Embedded, node_ids: Iterable[int]) -> None:
    """Start nodes that wait for each other."""
    started = list(node_ids)
    for node_id in started:
        cluster.nodes[node_id].begin()
    for node_id in started:
        cluster.nodes[node_id].await_ready()


def _where(cluster: Embedded, server: int | None) -> str:
    return cluster.bootstrap_servers if server is None else f"127.0.0.1:{cluster.nodes[server].port}"


def _serves(cluster: Embedded, node_id: int) -> bool:
    return _where(cluster, node_id) in cluster.bootstrap_servers.split(",")


def _answer(question: Callable[[], R]) -> R | None:
    """None if no broker answers: the command line then exits with an error message."""
    with suppress(SystemExit), redirect_stderr(io.StringIO()):
        return question()
    return None
