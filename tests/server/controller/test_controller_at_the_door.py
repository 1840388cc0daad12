"""Unknown or dead peers must not fill a controller's memory or change which leader it follows."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import BrokerId, LeaderEpoch, Offset
from odradek.controller.heartbeats import Heartbeats
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.image import ClusterImage
from odradek.protocol.messages import p80_add_raft_voter as p80
from odradek.protocol.messages import p82_update_raft_voter as p82
from odradek.protocol.messages.p53_begin_quorum_epoch import LeaderEndpoint
from odradek.protocol.messages.p62_broker_registration import BrokerRegistrationRequest
from odradek.protocol.messages.p63_broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from odradek.protocol.messages.p80_add_raft_voter import AddRaftVoterRequest
from odradek.protocol.messages.p82_update_raft_voter import UpdateRaftVoterRequest
from odradek.quorum.messages import Answer, Fetch, FetchAnswer
from odradek.quorum.voters import VoterKey
from odradek.security.authorizer import AllowAll
from odradek.server.api import (
    p53_begin_quorum_epoch,
    p62_broker_registration,
    p63_broker_heartbeat,
    p80_add_raft_voter,
    p82_update_raft_voter,
)
from odradek.server.controller.controller import Controller
from odradek.server.controller.controller_channel import ControllerChannel
from odradek.server.network.request import Api, ControllerContext
from odradek.server.quorum import fetches as metadata_fetches
from odradek.server.quorum import wire
from support.loops import WITHIN_S

NOBODY = VoterKey(BrokerId(9), b"x" * 16)


class Quorum:
    """Gives a fixed answer, and records the endpoints that it receives."""

    leader_id = BrokerId(1)
    is_leading = False

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.told: list[tuple] = []
        self.others = self

    async def ask(self, _request) -> Answer:
        return self.answer

    def told_endpoint(self, *where) -> None:
        self.told.append(where)

    def leader_endpoints(self) -> list:
        return []


class Refusing:
    heartbeats = None

    def __init__(self) -> None:
        self.suspected: list[int] = []

    def submit(self, _decide):
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)

    def suspect(self, broker_id: int) -> None:
        self.suspected.append(broker_id)


class Deciding:
    """Commits at once what it decides."""

    def __init__(self) -> None:
        self.heartbeats = Heartbeats(BrokerConfig())
        self.image = ClusterImage(cluster_id="c")

    async def submit(self, decide):
        decision = decide(self.image)
        end = Offset(self.image.offset + len(decision.records))
        self.image, _ = self.image.replay(decision.records, end, LeaderEpoch(1))
        return decision.response

    def suspect(self, broker_id: BrokerId) -> None:
        self.heartbeats.suspect(broker_id, 0)

    def watch_sessions(self) -> None: ...


def controller(quorum=None, decides=None) -> Controller:
    return Controller(
        node_id=BrokerId(1),
        cluster_id="c",
        config=BrokerConfig(),
        clock=SimpleNamespace(monotonic_ms=lambda: 0),
        rng=None,
        spawner=None,
        authorizer=AllowAll(),
        apis={},
        quorum=quorum,
        controller=decides or Refusing(),
    )


def stranger():
    return type("Peer", (), {"client_host": "", "principal": "User:ANONYMOUS"})()


def begin(answer: Answer) -> list[tuple]:
    quorum = Quorum(answer)
    request = wire.request_to_wire(
        wire.BeginEpoch(leader_id=BrokerId(7), leader_epoch=LeaderEpoch(3), voter=NOBODY, cluster_id="c"), 0, ()
    )
    request.leader_endpoints = [LeaderEndpoint(name="CONTROLLER", host="evil", port=number) for number in range(1, 50)]
    peer = SimpleNamespace(client_host="", principal="User:ANONYMOUS")
    asyncio.run(p53_begin_quorum_epoch.handle(ControllerContext(controller(quorum), peer, 1), request))
    return quorum.told


def test_the_endpoint_of_a_refused_leader_is_ignored():
    assert begin(Answer(error=ErrorCode.FENCED_LEADER_EPOCH, leader_id=BrokerId(1), leader_epoch=LeaderEpoch(9))) == []
    assert begin(Answer(leader_id=BrokerId(1), leader_epoch=LeaderEpoch(3))) == []
    assert len(begin(Answer(leader_id=BrokerId(7), leader_epoch=LeaderEpoch(3)))) == 1


@pytest.mark.parametrize("host", ["a..b", "a" * 64, "kafka\0", ""])
def test_a_voter_with_an_impossible_host_is_refused(host):
    """All other nodes would try to connect to it."""
    apart = controller(Quorum(Answer(leader_id=BrokerId(1), leader_epoch=LeaderEpoch(3))))
    ctx = ControllerContext(apart, stranger(), 0)
    added = AddRaftVoterRequest(voter_id=5, listeners=[p80.Listener(name="CONTROLLER", host=host, port=9093)])
    answer = asyncio.run(p80_add_raft_voter.handle(ctx, added))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert "cannot be the host of a node" in answer.error_message
    updated = UpdateRaftVoterRequest(voter_id=5, listeners=[p82.Listener(name="CONTROLLER", host=host, port=9093)])
    assert asyncio.run(p82_update_raft_voter.handle(ctx, updated)).error_code == ErrorCode.INVALID_REQUEST


def test_the_wait_of_a_replicas_fetch_is_limited(monkeypatch):
    monkeypatch.setattr(metadata_fetches, "WAIT_MS_MAX", 1)
    nothing_new = FetchAnswer(leader_id=BrokerId(1), leader_epoch=LeaderEpoch(3), high_watermark=Offset(0))
    quorum = Quorum(nothing_new)
    quorum.log = SimpleNamespace(log_end_offset=0, read=lambda *_, **__: None)
    quorum.core = SimpleNamespace(fetch_answer=lambda _: nothing_new)
    fetches = metadata_fetches.MetadataFetches(quorum)
    fetch = Fetch(
        replica=NOBODY,
        cluster_id="c",
        leader_epoch=LeaderEpoch(3),
        fetch_offset=Offset(0),
        last_fetched_epoch=LeaderEpoch(3),
        high_watermark=Offset(0),
    )
    assert asyncio.run(asyncio.wait_for(fetches.answer(fetch, 2**31 - 1), WITHIN_S)) == nothing_new
    assert not fetches._held


def test_a_broken_connection_is_forgotten_and_its_broker_is_suspected():
    apart = controller()
    peer = stranger()
    beat = BrokerHeartbeatRequest(broker_id=5)
    asyncio.run(p63_broker_heartbeat.handle(ControllerContext(apart, peer, 0), beat))
    apart.lost(peer)
    assert apart.controller.suspected == [5]
    assert not apart._heard_over


def enter(apart: Controller, incarnation: bytes) -> ErrorCode:
    request = BrokerRegistrationRequest(
        broker_id=5, cluster_id="c", incarnation_id=incarnation * 16, log_dirs=[b"d" * 16], rack=None
    )
    answer = asyncio.run(p62_broker_registration.handle(ControllerContext(apart, stranger(), 4), request))
    return ErrorCode(answer.error_code)


def test_another_incarnation_can_register_only_after_the_brokers_connection_broke():
    """A registration may arrive long after its process was killed, and after the next process has registered."""
    apart, peer = controller(decides=Deciding()), stranger()
    assert enter(apart, b"1") is ErrorCode.NONE
    beat = BrokerHeartbeatRequest(broker_id=5, broker_epoch=apart.controller.image.brokers[5].broker_epoch)
    asyncio.run(p63_broker_heartbeat.handle(ControllerContext(apart, peer, 0), beat))
    assert enter(apart, b"0") is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert enter(apart, b"1") is ErrorCode.NONE
    apart.lost(peer)
    assert enter(apart, b"2") is ErrorCode.NONE


def test_heartbeats_of_a_node_to_itself_are_remembered_as_one_connection():
    apart = controller()
    api = Api(key=63, versions=(0, 2), request=BrokerHeartbeatRequest, handle=p63_broker_heartbeat.handle)
    channel = ControllerChannel(
        node_id=BrokerId(1),
        quorum=Quorum(Answer(leader_epoch=LeaderEpoch(1))),
        peers=None,
        apis={63: api},
        context=lambda connection, version: ControllerContext(apart, connection, version),
    )

    async def beat() -> None:
        for _ in range(20):
            answer = await channel.ask(BrokerHeartbeatRequest(broker_id=1), object, timeout_ms=1000)
            assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH

    asyncio.run(beat())
    assert len(apart._heard_over) == 1


def test_a_request_to_the_nodes_own_controller_times_out():
    """Otherwise its next heartbeat would wait for the commit of the last one, and the session would end."""

    async def commits_late(ctx: object, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        await asyncio.Event().wait()
        return BrokerHeartbeatResponse()

    api = Api(key=63, versions=(0, 2), request=BrokerHeartbeatRequest, handle=commits_late)
    channel = ControllerChannel(
        node_id=BrokerId(1),
        quorum=Quorum(Answer(leader_epoch=LeaderEpoch(1))),
        peers=None,
        apis={63: api},
        context=lambda connection, version: ControllerContext(controller(), connection, version),
    )
    with pytest.raises(KafkaError) as late:
        asyncio.run(channel.ask(BrokerHeartbeatRequest(broker_id=1), BrokerHeartbeatResponse, timeout_ms=1))
    assert late.value.code is ErrorCode.REQUEST_TIMED_OUT
