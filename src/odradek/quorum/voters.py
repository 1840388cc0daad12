"""The voter set. A voter is a node id together with the id of its metadata directory, so that a node that lost its
disk is not mistaken for the voter that it was (KIP-853)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from odradek.base.ids import ZERO_UUID, BrokerId, DirectoryId
from odradek.protocol import control_records

VOTERS_RECORD_VERSION = 0
# The only supported version: voter sets are in the log, not in a static configuration.
KRAFT_VERSION = 1


class VoterKey(NamedTuple):
    voter_id: BrokerId
    directory_id: DirectoryId


class Endpoint(NamedTuple):
    """Where peers reach a voter."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    key: VoterKey
    endpoints: tuple[Endpoint, ...] = ()
    min_kraft_version: int = KRAFT_VERSION
    max_kraft_version: int = KRAFT_VERSION


@dataclass(frozen=True, slots=True)
class VoterSet:
    voters: tuple[Voter, ...]

    @property
    def keys(self) -> tuple[VoterKey, ...]:
        return tuple(voter.key for voter in self.voters)

    def seat_of(self, replica: VoterKey) -> VoterKey | None:
        """The voter that `replica` is. None for an observer, and for a node that votes with another directory.

        A voter without a directory id matches every replica with its node id.
        """
        for key in self.keys:
            if key == replica or (key.voter_id == replica.voter_id and key.directory_id == ZERO_UUID):
                return key
        return None

    def has_id(self, voter_id: BrokerId) -> bool:
        return any(key.voter_id == voter_id for key in self.keys)

    def with_voter(self, voter: Voter) -> VoterSet:
        """The same set, with the updated entry of `voter`."""
        seat = self.seat_of(voter.key)
        return VoterSet(tuple(voter if known.key == seat else known for known in self.voters))

    def including(self, voter: Voter) -> VoterSet:
        return VoterSet((*self.voters, voter))

    def without(self, seat: VoterKey) -> VoterSet:
        return VoterSet(tuple(voter for voter in self.voters if voter.key != seat))

    def to_record(self) -> control_records.VotersRecord:
        return control_records.VotersRecord(
            version=VOTERS_RECORD_VERSION,
            voters=[
                control_records.VotersRecordVoter(
                    voter_id=voter.key.voter_id,
                    voter_directory_id=voter.key.directory_id,
                    endpoints=[
                        control_records.Endpoint(name=e.name, host=e.host, port=e.port) for e in voter.endpoints
                    ],
                    kraft_version_feature=control_records.KRaftVersionFeature(
                        min_supported_version=voter.min_kraft_version,
                        max_supported_version=voter.max_kraft_version,
                    ),
                )
                for voter in self.voters
            ],
        )


def voters_from_record(record: control_records.VotersRecord) -> VoterSet:
    return VoterSet(
        tuple(
            Voter(
                key=VoterKey(BrokerId(voter.voter_id), DirectoryId(voter.voter_directory_id)),
                endpoints=tuple(Endpoint(e.name, e.host, e.port) for e in voter.endpoints),
                min_kraft_version=voter.kraft_version_feature.min_supported_version,
                max_kraft_version=voter.kraft_version_feature.max_supported_version,
            )
            for voter in record.voters
        )
    )
