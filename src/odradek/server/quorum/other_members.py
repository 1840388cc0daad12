"""The other members of the quorum, as this node sees them: addresses, whether they answer, and requests to them."""

from __future__ import annotations

import logging
from collections.abc import Callable

from odradek.base.errors import KafkaError
from odradek.base.ids import BrokerId
from odradek.protocol.batch import has_valid_checksum, iter_batches
from odradek.protocol.malformed import MalformedRecords
from odradek.quorum.effects import Send
from odradek.quorum.events import Answered, RequestFailed
from odradek.quorum.messages import AddVoter, Fetch, FetchAnswer, RemoveVoter, Request, UpdateVoter
from odradek.quorum.voters import Endpoint, VoterSet
from odradek.server.network.peers import Peers, PeerUnavailable
from odradek.server.quorum.answers import answer_from_wire, endpoints_from_wire
from odradek.server.quorum.member import Member
from odradek.server.quorum.wire import request_to_wire

_log = logging.getLogger(__name__)

FETCH_WAIT_MS = 500
REQUEST_TIMEOUT_MS = 2_000
# For how long a missing answer counts.
SILENCE_MS = 2_000


class QuorumPeers:
    def __init__(self, member: Member, peers: Peers, voters: Callable[[], VoterSet]) -> None:
        self._member = member
        self._peers = peers
        self._voters = voters
        # Called with a node that did not answer.
        self.on_unreachable: Callable[[BrokerId], None] = lambda _: None
        self._told_endpoints = member.bootstrap_by_id
        # Nodes whose connection broke since the last request to them.
        self._lost: dict[BrokerId, None] = {}
        # Nodes that did not answer the last request, and when that was.
        self._silent_ms: dict[BrokerId, int] = {}

    def endpoint_of(self, node_id: BrokerId) -> Endpoint | None:
        """Where the member listens for others: what its peers said last, or else what the voter set says."""
        if node_id in self._told_endpoints:
            return self._told_endpoints[node_id]
        for voter in self._voters().voters:
            if voter.key.voter_id == node_id and voter.endpoints:
                return voter.endpoints[0]
        return None

    def told_endpoint(self, node_id: BrokerId, name: str, host: str, port: int) -> None:
        self._told_endpoints[node_id] = Endpoint(name, host, port)

    def lost(self, node_id: BrokerId) -> None:
        """A connection to this node broke. Called before the requests on it fail."""
        self._lost[node_id] = None

    @property
    def majority_is_silent(self) -> bool:
        """Too few voters answer for a majority: nothing can be decided until another one does."""
        voters, since_ms = self._voters().keys, self._peers.clock.monotonic_ms() - SILENCE_MS
        silent = [key for key in voters if self._silent_ms.get(key.voter_id, since_ms) > since_ms]
        return 2 * (len(voters) - len(silent)) <= len(voters)

    async def ask(self, effect: Send) -> Answered | RequestFailed:
        """The outcome of the request."""
        self._lost.pop(effect.peer, None)
        request = request_to_wire(effect.request, FETCH_WAIT_MS, self._member.voter.endpoints)
        patience_ms = REQUEST_TIMEOUT_MS + (FETCH_WAIT_MS if isinstance(effect.request, Fetch) else 0)
        try:
            response = await self._peers.ask(
                effect.peer,
                request,
                type(request).VERSIONS[1],
                timeout_ms=patience_ms,
                purpose=_purpose(effect.request),
            )
            answer = answer_from_wire(response)
        except (PeerUnavailable, KafkaError):
            self._silent_ms[effect.peer] = self._peers.clock.monotonic_ms()
            self.on_unreachable(effect.peer)
            return RequestFailed(effect.peer, effect.request, peer_gone=effect.peer in self._lost)
        self._silent_ms.pop(effect.peer, None)
        if isinstance(answer, FetchAnswer) and not _are_sound(answer.records):
            _log.warning("node %d sent metadata that does not match its checksum", effect.peer)
            return RequestFailed(effect.peer, effect.request)
        told = endpoints_from_wire(response)
        if answer.leader_id in told:
            self._told_endpoints[answer.leader_id] = told[answer.leader_id]
        return Answered(effect.peer, effect.request, answer)


def _purpose(request: Request) -> str:
    """Replies come in order: a change that waits for its commit must not hold up the fetch that commits it."""
    return "voters" if isinstance(request, AddVoter | RemoveVoter | UpdateVoter) else "quorum"


def _are_sound(records: bytes | memoryview) -> bool:
    try:
        return all(has_valid_checksum(batch) for _, batch in iter_batches(records))
    except MalformedRecords:
        return False
