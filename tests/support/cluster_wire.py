"""The wire client of the traps in a cluster: each request goes to the leader or coordinator that it is meant for."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from odradek.protocol.messages.p00_produce import ProduceRequest
from odradek.protocol.messages.p01_fetch import FetchRequest
from odradek.protocol.messages.p09_offset_fetch import OffsetFetchRequest
from odradek.protocol.messages.p10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.p28_txn_offset_commit import TxnOffsetCommitRequest
from odradek.testing import Embedded
from support.onlooker import eventually, partitions
from traps.wire import Wire

GROUP, TRANSACTION = 0, 1


class ClusterWire(Wire):
    """`ask` finds out where to send a request every time, so it follows elections and failovers."""

    def __init__(self, cluster: Embedded) -> None:
        self._cluster = cluster
        self._wires: dict[int, Wire] = {}
        self._topic_ids = {}

    def __exit__(self, *_: object) -> None:
        for wire in self._wires.values():
            wire.socket.close()

    def ask(self, request: Any, version: int, *, more: bytes = b"") -> Any:
        return self.to(self._place_of(request)).ask(request, version, more=more)

    def to(self, node_id: int) -> Wire:
        if node_id not in self._wires:
            self._wires[node_id] = Wire(self._cluster.nodes[node_id].port)
        return self._wires[node_id]

    def any(self) -> Wire:
        return self.to(next(node_id for node_id, node in self._cluster.nodes.items() if node.is_running))

    def leader(self, topic: str, partition: int) -> int:
        def found() -> int | None:
            seen = partitions(self._cluster, topic).get(partition)
            leads = seen is not None and seen.leader > 0 and self._cluster.nodes[seen.leader].is_running
            return seen.leader if seen is not None and leads else None

        return eventually(found, f"{topic}-{partition} has no leader")

    def coordinator(self, key: str, kind: int) -> int:
        def found() -> int | None:
            answer = None
            with suppress(OSError):
                answer = self.any().ask(FindCoordinatorRequest(key=key, key_type=kind), 2)
            is_known = answer is not None and not answer.error_code
            return answer.node_id if is_known and self._cluster.nodes[answer.node_id].is_running else None

        return eventually(found, f"{key} has no coordinator")

    def _place_of(self, request: Any) -> int:
        match request:
            case ProduceRequest(topic_data=[topic]):
                return self.leader(topic.name, topic.partition_data[0].index)
            case FetchRequest(topics=[topic]):
                return self.leader(topic.topic, topic.partitions[0].partition)
            case TxnOffsetCommitRequest(group_id=group):
                return self.coordinator(group, GROUP)
            case OffsetFetchRequest(groups=[group]):
                return self.coordinator(group.group_id, GROUP)
            case FindCoordinatorRequest():
                return next(node_id for node_id, node in self._cluster.nodes.items() if node.is_running)
        transactional_id = getattr(request, "transactional_id", None) or request.v3_and_below_transactional_id
        return self.coordinator(transactional_id, TRANSACTION)
