"""The election state that must survive a crash, and its file `quorum-state` in Kafka's format.

The file is durable before the node sends anything that depends on it: a vote, a claim of leadership, a record.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from odradek.base.errors import UnusableDirectory
from odradek.base.ids import NO_BROKER, ZERO_UUID, BrokerId, DirectoryId, LeaderEpoch, uuid_from_text, uuid_text
from odradek.quorum.voters import VoterKey

DATA_VERSION = 1
# Kafka writes this version while the voters are in the configuration.
CONFIGURED_VOTERS_VERSION = 0
QUORUM_STATE_FILE = "quorum-state"


class BrokenQuorumState(UnusableDirectory):
    """`quorum-state` cannot be read. A guessed epoch could lead to two leaders, so the node does not start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionState:
    # Never decreases, also across restarts.
    leader_epoch: LeaderEpoch
    leader_id: BrokerId = NO_BROKER
    # At most one vote per epoch.
    voted: VoterKey | None = None

    def encode(self) -> bytes:
        voted_id, directory_id = self.voted or (NO_BROKER, DirectoryId(ZERO_UUID))
        return json.dumps(
            {
                "leaderId": self.leader_id,
                "leaderEpoch": self.leader_epoch,
                "votedId": voted_id,
                "votedDirectoryId": uuid_text(directory_id),
                "data_version": DATA_VERSION,
            },
            separators=(",", ":"),
        ).encode()


NEVER_ELECTED = ElectionState(leader_epoch=LeaderEpoch(0))


def decode_election(data: bytes) -> ElectionState:
    fields = _fields(data)
    try:
        voted_id = BrokerId(fields["votedId"])
        directory = fields["votedDirectoryId"] if fields["data_version"] == DATA_VERSION else uuid_text(ZERO_UUID)
        return ElectionState(
            leader_epoch=LeaderEpoch(fields["leaderEpoch"]),
            leader_id=BrokerId(fields["leaderId"]),
            voted=None if voted_id == NO_BROKER else VoterKey(voted_id, DirectoryId(uuid_from_text(directory))),
        )
    except (ValueError, KeyError, TypeError) as broken:
        raise _broken(data) from broken


def decode_configured_voters(data: bytes) -> tuple[BrokerId, ...]:
    """The voters of a quorum with kraft.version 0: they are in its configuration and nowhere else on disk."""
    fields = _fields(data)
    try:
        return tuple(BrokerId(voter["voterId"]) for voter in fields.get("currentVoters", ()))
    except (KeyError, TypeError) as broken:
        raise _broken(data) from broken


def _fields(data: bytes) -> dict[str, Any]:
    try:
        fields: dict[str, Any] = json.loads(data)
        version = fields["data_version"]
    except (ValueError, KeyError, TypeError) as broken:
        raise _broken(data) from broken
    if version not in (CONFIGURED_VOTERS_VERSION, DATA_VERSION):
        raise BrokenQuorumState(
            f"quorum-state has data_version {version}; the newest supported version is {DATA_VERSION}"
        )
    return fields


def _broken(data: bytes) -> BrokenQuorumState:
    return BrokenQuorumState(f"quorum-state is not what Odradek or Kafka writes: {data[:200]!r}")
