"""Client instances: what they may do, and when. `make interop` compares the same rules with Apache Kafka."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID
from odradek.telemetry.instances import ClientInstances, Push
from odradek.telemetry.subscriptions import Client, subscriptions

INTERVAL_MS = 10_000
BYTES_MAX = 100
INSTANCES_MAX = 10
CLIENT = Client("User:a", "app", "librdkafka", "2.16.1", "127.0.0.1", 50_000)


class Scene:
    def __init__(self) -> None:
        self.instances = ClientInstances(bytes_max=BYTES_MAX, instances_max=INSTANCES_MAX)
        self.subscribe({"metrics": "*", "interval.ms": str(INTERVAL_MS)})
        self.now_ms = 1_000_000
        self._last_id = 0

    def subscribe(self, config) -> None:
        self.instances.configure(subscriptions({"s": config}))

    def _new_id(self) -> bytes:
        self._last_id += 1
        return self._last_id.to_bytes(16, "big")[::-1]

    def get(self, instance_id=ZERO_UUID, *, client=CLIENT, connection="c"):
        return self.instances.get(instance_id, client, connection, self.now_ms, self._new_id)

    def push(self, instance, *, client=CLIENT, connection="c", **fields):
        fields = {"subscription_id": instance.subscription_id, "terminating": False, "compression_type": 0} | fields
        push = Push(**{"metrics": b"x"} | fields)
        return self.instances.push(instance.instance_id, push, client, connection, self.now_ms)

    def refused(self, call, *args, **more) -> ErrorCode:
        with pytest.raises(KafkaError) as refused:
            call(*args, **more)
        return refused.value.code


@pytest.fixture
def scene():
    return Scene()


def test_a_client_gets_an_id_and_pushes_at_the_interval(scene):
    instance = scene.get()
    assert instance.instance_id != ZERO_UUID
    assert (instance.wanted.metrics, instance.wanted.interval_ms) == (("*",), INTERVAL_MS)
    scene.push(instance)  # at once: a client varies its first interval
    for _ in range(3):
        scene.now_ms += INTERVAL_MS
        scene.push(instance)


def test_a_push_before_the_interval_is_throttled(scene):
    instance = scene.get()
    scene.push(instance)
    scene.now_ms += INTERVAL_MS - 1
    assert scene.refused(scene.push, instance) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert scene.instances.tally.throttled == 1
    scene.now_ms += 1
    scene.push(instance)


def test_asking_before_the_interval_is_throttled(scene):
    instance = scene.get()
    assert scene.refused(scene.get, instance.instance_id) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    scene.now_ms += INTERVAL_MS
    scene.push(instance)
    assert scene.refused(scene.get, instance.instance_id) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    scene.now_ms += INTERVAL_MS
    scene.get(instance.instance_id)


def test_changed_subscriptions_are_noticed_at_the_next_push_and_may_be_asked_for_at_once(scene):
    instance = scene.get()
    scene.push(instance)
    scene.subscribe({"metrics": "a."})
    scene.now_ms += INTERVAL_MS
    assert scene.refused(scene.push, instance) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert scene.instances.tally.unknown_subscription == 1
    following = scene.get(instance.instance_id)
    assert following.wanted.metrics == ("a.",)
    scene.push(following)


def test_a_client_may_push_to_a_broker_that_it_has_not_asked(scene):
    instance = scene.get()
    elsewhere = Scene()
    elsewhere.push(instance)
    assert elsewhere.refused(elsewhere.push, instance) == ErrorCode.THROTTLING_QUOTA_EXCEEDED


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"subscription_id": 1}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        ({"compression_type": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"compression_type": -1}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"metrics": bytes(BYTES_MAX + 1)}, ErrorCode.TELEMETRY_TOO_LARGE),
    ],
)
def test_a_wrong_push_is_refused(scene, fields, code):
    instance = scene.get()
    assert scene.refused(scene.push, instance, **fields) == code


def test_after_an_unsupported_compression_the_client_may_ask_at_once(scene):
    instance = scene.get()
    assert scene.refused(scene.push, instance, compression_type=9) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    scene.push(scene.get(instance.instance_id))


@pytest.mark.parametrize("codec", range(5))
def test_every_codec_is_accepted(scene, codec):
    scene.push(scene.get(), compression_type=codec, metrics=bytes(BYTES_MAX))


@pytest.mark.parametrize("reserved", [ZERO_UUID, bytes(15) + b"\x01"])
def test_a_push_needs_a_valid_instance_id(scene, reserved):
    instance = scene.get()
    instance.instance_id = reserved
    assert scene.refused(scene.push, instance) == ErrorCode.INVALID_REQUEST


def test_a_terminating_client_may_push_early_and_not_again(scene):
    instance = scene.get()
    scene.push(instance)
    scene.push(instance, terminating=True)
    scene.now_ms += INTERVAL_MS
    assert scene.refused(scene.push, instance) == ErrorCode.INVALID_REQUEST


def test_an_instance_of_another_principal_is_refused(scene):
    instance = scene.get()
    stranger = CLIENT._replace(principal="User:b")
    assert scene.refused(scene.push, instance, client=stranger, connection="d") == ErrorCode.INVALID_REQUEST
    assert scene.refused(scene.get, instance.instance_id, client=stranger, connection="d") == ErrorCode.INVALID_REQUEST
    scene.push(instance)


def test_a_client_that_reconnects_may_ask_and_push_at_once(scene):
    instance = scene.get()
    scene.push(instance)
    scene.instances.lost("c")
    assert len(scene.instances) == 0
    scene.push(scene.get(instance.instance_id, connection="d"), connection="d")


def test_the_loss_of_a_former_connection_does_not_matter(scene):
    instance = scene.get()
    scene.now_ms += INTERVAL_MS
    scene.push(instance, connection="d")
    scene.instances.lost("c")
    assert scene.refused(scene.push, instance, connection="d") == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_the_loss_of_a_former_connection_does_not_matter_after_a_change_of_subscriptions(scene):
    instance = scene.get()
    scene.subscribe({"metrics": "a.", "interval.ms": str(INTERVAL_MS)})
    scene.get(instance.instance_id, connection="d")
    scene.instances.lost("c")
    assert len(scene.instances) == 1


def test_a_connection_has_one_instance(scene):
    for _ in range(3 * INSTANCES_MAX):
        scene.get()
    assert len(scene.instances) == 1


def test_instances_are_bounded_and_the_least_recently_active_is_removed(scene):
    first, second = scene.get(connection=0), scene.get(connection=1)
    for connection in range(2, INSTANCES_MAX):
        scene.get(connection=connection)
    scene.push(first, connection=0)
    scene.get(connection="one more")
    assert len(scene.instances) == INSTANCES_MAX
    assert scene.instances.tally.evicted == 1
    assert scene.refused(scene.push, first, connection=0) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    scene.get(second.instance_id, connection=1)  # not throttled: it is new


def test_a_silent_instance_is_forgotten_after_three_intervals_but_at_least_a_minute(scene):
    scene.get()
    scene.now_ms += 59_999
    scene.instances.expire(scene.now_ms)
    assert len(scene.instances) == 1
    scene.now_ms += 1
    scene.instances.expire(scene.now_ms)
    assert len(scene.instances) == 0
    scene.subscribe({"metrics": "*", "interval.ms": "60000"})
    scene.get()
    scene.now_ms += 179_999
    scene.instances.expire(scene.now_ms)
    assert len(scene.instances) == 1
