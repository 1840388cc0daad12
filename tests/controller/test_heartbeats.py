from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import BrokerId
from odradek.controller import safeguards
from odradek.controller.heartbeats import Heartbeats
from odradek.metadata.configs.broker import BrokerConfig
from odradek.protocol.messages.p63_broker_heartbeat import BrokerHeartbeatRequest

CONFIG = BrokerConfig.parse({"broker.session.timeout.ms": "9000", "broker.heartbeat.interval.ms": "2000"})
CAUGHT_UP = 1 << 40


@pytest.fixture
def heartbeats(three):
    heartbeats = Heartbeats(CONFIG)
    heartbeats.begin(three.image, 0)
    return heartbeats


def beat(cluster, heartbeats, broker_id, now_ms=1000, *, offset=CAUGHT_UP, broker_epoch=None, **wishes):
    request = BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=cluster.epoch(broker_id) if broker_epoch is None else broker_epoch,
        current_metadata_offset=offset,
        **wishes,
    )
    answered = cluster.take(heartbeats.answer(cluster.image, request, now_ms))
    return answered.is_caught_up, answered.is_fenced, answered.should_shut_down


# Sessions


def test_a_new_controller_gives_every_broker_a_whole_session(three, heartbeats):
    """KAFKA-18138: also brokers that died before its election and will never send a heartbeat."""
    assert heartbeats.next_deadline_ms == 9000
    assert heartbeats.stale(9000) == []
    assert heartbeats.stale(9001) == [1, 2, 3]
    heartbeats.begin(three.image, 5000)
    assert heartbeats.stale(14_000) == []


def test_a_heartbeat_renews_the_session(three, heartbeats):
    beat(three, heartbeats, 1, 5000)
    assert heartbeats.stale(10_000) == [2, 3]
    assert heartbeats.has_session(BrokerId(1), 14_000)
    assert not heartbeats.has_session(BrokerId(1), 14_001)


def test_stale_brokers_are_fenced_one_by_one_the_longest_silent_first(three, heartbeats):
    beat(three, heartbeats, 1, 5000)
    beat(three, heartbeats, 3, 100)
    assert three.take(heartbeats.fence_one_stale(three.image, 9101)) is True
    assert (three.image.brokers[2].fenced, three.image.brokers[3].fenced) == (True, False)
    assert three.take(heartbeats.fence_one_stale(three.image, 9101)) is True
    assert three.image.brokers[3].fenced
    assert (three.partition().leader, three.partition().isr, three.partition().elr) == (1, (1,), (3,))
    assert three.take(heartbeats.fence_one_stale(three.image, 9101)) is False
    assert heartbeats.next_deadline_ms == 14_000


def test_a_controller_that_paused_extends_expired_sessions_once(three, heartbeats):
    heartbeats.excuse(30_000)
    assert heartbeats.stale(33_000) == []
    beat(three, heartbeats, 1, 32_000)
    heartbeats.excuse(40_000)
    assert heartbeats.stale(40_000) == [2, 3]  # only once
    heartbeats.excuse(50_000)
    assert heartbeats.stale(50_000) == [2, 3]  # the other broker sent a heartbeat in between


def test_a_controller_checks_an_expired_session_a_second_time(three, heartbeats):
    """The controller may have paused until now, with unread heartbeats."""
    heartbeats.excuse(9100)
    assert heartbeats.stale(9150) == []
    assert heartbeats.stale(9151) == [1, 2, 3]
    heartbeats.excuse(9151)
    assert heartbeats.stale(9151) == [1, 2, 3]


def test_a_new_incarnation_is_not_fenced_for_the_session_of_the_old_one(three, heartbeats):
    three.add_broker(1, incarnation=1)
    decision = heartbeats.fence_one_stale(three.image, 9001)
    assert (decision.records, decision.response) == ((), True)


def test_a_lost_connection_shortens_the_session_and_a_heartbeat_clears_it(three, heartbeats):
    heartbeats.suspect(BrokerId(1), 1000)
    assert heartbeats.next_deadline_ms == 1000 + 3000
    heartbeats.suspect(BrokerId(1), 2000)
    assert heartbeats.next_deadline_ms == 1000 + 3000  # a second lost connection does not extend it
    beat(three, heartbeats, 1, 3000)
    assert heartbeats.stale(9000) == []
    heartbeats.suspect(BrokerId(2), 8000)
    assert heartbeats.stale(9001) == [2, 3]  # nor does a late report


def test_an_unreachable_broker_loses_its_session_early_unless_the_controller_got_a_heartbeat(three, heartbeats):
    beat(three, heartbeats, 2, 500)
    for broker_id in (1, 2):
        heartbeats.suspect_unheard(BrokerId(broker_id), 1000)
    assert heartbeats.stale(4001) == [1]
    beat(three, heartbeats, 1, 5000)
    heartbeats.suspect_unheard(BrokerId(1), 6000)
    assert heartbeats.stale(9001) == [3]


def test_is_heard_follows_heartbeats_and_lost_connections(three, heartbeats):
    assert not heartbeats.is_heard(BrokerId(1))  # not by this controller
    beat(three, heartbeats, 1)
    assert heartbeats.is_heard(BrokerId(1))
    heartbeats.suspect(BrokerId(1), 1100)
    assert not heartbeats.is_heard(BrokerId(1))
    beat(three, heartbeats, 1, 1200)
    assert heartbeats.is_heard(BrokerId(1))


def test_an_inactive_controller_has_no_sessions(three, heartbeats):
    heartbeats.end()
    assert heartbeats.next_deadline_ms is None
    assert not heartbeats.has_session(BrokerId(1), 0)
    assert not heartbeats.is_heard(BrokerId(1))


# Answers


def test_a_broker_is_unfenced_when_it_has_replayed_its_own_registration(three, heartbeats):
    epoch = three.add_broker(3, incarnation=1, unfence=False)
    assert beat(three, heartbeats, 3, offset=epoch - 1) == (False, True, False)
    assert three.image.brokers[3].fenced
    assert beat(three, heartbeats, 3, offset=epoch) == (True, False, False)
    assert not three.image.brokers[3].fenced


def test_without_the_catch_up_rule_a_broker_is_unfenced_at_once(three, heartbeats, monkeypatch):
    monkeypatch.setattr(safeguards, "caught_up_before_unfenced", lambda offset, epoch: True)
    three.add_broker(3, incarnation=1, unfence=False)
    assert beat(three, heartbeats, 3, offset=0) == (True, False, False)


def test_the_registration_record_comes_after_the_partition_changes(three):
    before = three.image.offset
    epoch = three.add_broker(1, incarnation=1, unfence=False)
    assert (three.partition().leader, epoch) == (2, three.image.offset)
    assert epoch > before + 1


def test_a_broker_is_fenced_on_its_own_request(three, heartbeats):
    assert beat(three, heartbeats, 1, want_fence=True) == (True, True, False)
    assert (three.image.brokers[1].fenced, three.partition().leader) == (True, 2)
    assert beat(three, heartbeats, 1, want_fence=True) == (True, True, False)
    assert beat(three, heartbeats, 1) == (True, False, False)


def test_an_older_incarnation_is_refused_and_has_no_session(three, heartbeats):
    heartbeats.end()
    with pytest.raises(KafkaError) as refused:
        beat(three, heartbeats, 1, broker_epoch=three.epoch(1) - 1)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
    assert not heartbeats.has_session(BrokerId(1), 1000)


# Controlled shutdown


def test_a_leader_stops_when_all_brokers_have_replayed_the_loss_of_its_leaderships(three, heartbeats):
    for broker_id in (2, 3):
        beat(three, heartbeats, broker_id, offset=three.image.offset)
    assert beat(three, heartbeats, 1, want_shut_down=True) == (True, False, False)
    assert three.image.brokers[1].in_controlled_shutdown
    assert (three.partition().leader, three.partition().isr) == (2, (2, 3))
    moved = three.image.offset
    beat(three, heartbeats, 2, offset=moved)
    beat(three, heartbeats, 3, offset=moved - 1)
    assert beat(three, heartbeats, 1, want_shut_down=True) == (True, False, False)
    beat(three, heartbeats, 3, offset=moved)
    assert beat(three, heartbeats, 1, want_shut_down=True) == (True, True, True)
    assert three.image.brokers[1].fenced


def test_a_broker_without_leaderships_stops_at_once(three, heartbeats):
    assert beat(three, heartbeats, 3, want_shut_down=True) == (True, True, True)
    assert (three.image.brokers[3].fenced, three.partition().isr) == (True, (1, 2))


def test_a_fenced_broker_stops_at_once(three, heartbeats):
    three.fence(3)
    assert beat(three, heartbeats, 3, want_shut_down=True, want_fence=True) == (True, True, True)


def test_the_last_broker_can_stop(cluster):
    cluster.add_topic("t", [1])
    heartbeats = Heartbeats(CONFIG)
    heartbeats.begin(cluster.image, 0)
    assert beat(cluster, heartbeats, 1, want_shut_down=True) == (True, False, False)
    assert beat(cluster, heartbeats, 1, want_shut_down=True) == (True, True, True)
    assert cluster.partition().leader == -1


def test_another_controller_continues_a_controlled_shutdown(three, heartbeats):
    beat(three, heartbeats, 1, want_shut_down=True)
    successor = Heartbeats(CONFIG)
    successor.begin(three.image, 2000)
    assert beat(three, successor, 1, 2500, want_shut_down=True) == (True, True, True)


# Disks


def test_a_broker_without_disks_is_fenced_and_stays_so(three, heartbeats):
    failed = list(three.image.brokers[1].directories)
    assert beat(three, heartbeats, 1, offline_log_dirs=failed) == (True, True, False)
    assert (three.image.brokers[1].fenced, three.partition().leader) == (True, 2)
    assert beat(three, heartbeats, 1, offline_log_dirs=failed) == (True, True, False)
