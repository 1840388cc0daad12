"""The current leader (KIP-951), sent with a NOT_LEADER error, so that the client needs no metadata request."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from odradek.protocol.wire import uvarint

_leader = Struct(">iix").pack


class CurrentLeader(NamedTuple):
    leader_id: int
    leader_epoch: int


class NodeEndpoint(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None = None


def current_leader_content(leader: CurrentLeader) -> bytes:
    return _leader(leader.leader_id, leader.leader_epoch)


def node_endpoints_content(endpoints: Sequence[NodeEndpoint]) -> bytes:
    parts = [uvarint(len(endpoints) + 1)]
    for node_id, host, port, rack in endpoints:
        parts += (node_id.to_bytes(4, "big", signed=True), compact_string(host), port.to_bytes(4, "big", signed=True))
        parts += (b"\0" if rack is None else compact_string(rack), b"\0")
    return b"".join(parts)


def compact_string(text: str) -> bytes:
    encoded = text.encode()
    return uvarint(len(encoded) + 1) + encoded
