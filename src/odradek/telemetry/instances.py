"""The client instances that this broker knows, and whether a request of one is accepted.

A client instance asks for its subscription, then pushes at the interval of the subscription. What it may do next
depends on its last requests, so its state lives as long as its connection, or until it has been silent for long. A
connection has one instance at a time, so a client cannot crowd out the others with new instance ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from odradek.base import limits
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID
from odradek.protocol.compression import Codec
from odradek.telemetry.subscriptions import Client, Subscription, Wanted, subscription_id, wanted_of

# Kafka's reserved ids: none, and that of the metadata topic.
RESERVED_IDS = (ZERO_UUID, bytes(15) + b"\x01")
EXPIRY_MS_MIN = 60_000
EXPIRY_INTERVALS = 3


class Push(NamedTuple):
    subscription_id: int
    terminating: bool
    compression_type: int
    metrics: bytes


@dataclass(slots=True, kw_only=True, eq=False)
class Instance:
    instance_id: bytes
    client: Client
    connection: object
    # Of this version of the subscriptions.
    version: int
    wanted: Wanted
    subscription_id: int
    expires_ms: int = 0
    last_get_ms: int | None = None
    last_push_ms: int | None = None
    # It got its subscription and has not pushed since.
    push_due: bool = False
    terminating: bool = False
    last_error: ErrorCode = ErrorCode.NONE

    @property
    def lifetime_ms(self) -> int:
        """How long it is known after its last request."""
        return max(EXPIRY_MS_MIN, EXPIRY_INTERVALS * self.wanted.interval_ms)


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counted since the start."""

    throttled: int = 0
    unknown_subscription: int = 0
    evicted: int = 0


class ClientInstances:
    def __init__(self, *, bytes_max: int, instances_max: int = limits.telemetry_instances_max) -> None:
        self._bytes_max = bytes_max
        self._instances_max = instances_max
        self._subscriptions: Sequence[Subscription] = ()
        self._version = 0
        # In order of their last request.
        self._instances: dict[bytes, Instance] = {}
        self._by_connection: dict[object, Instance] = {}
        self.tally = Tally()

    def __len__(self) -> int:
        return len(self._instances)

    @property
    def has_subscriptions(self) -> bool:
        return bool(self._subscriptions)

    def configure(self, subscriptions: Sequence[Subscription]) -> None:
        """The subscriptions changed. Clients notice at their next request."""
        self._subscriptions = subscriptions
        self._version += 1

    def get(
        self, instance_id: bytes, client: Client, connection: object, now_ms: int, new_id: Callable[[], bytes]
    ) -> Instance:
        """GetTelemetrySubscriptions. Raises KafkaError."""
        while instance_id == ZERO_UUID:
            candidate = new_id()
            instance_id = ZERO_UUID if candidate in self._instances else candidate
        instance = self._seen(instance_id, client, connection, now_ms)
        last_ms = max((ms for ms in (instance.last_get_ms, instance.last_push_ms) if ms is not None), default=None)
        must_ask = instance.last_error in (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if not must_ask and _is_early(last_ms, instance, now_ms):
            self._throttle()
        instance.last_get_ms = now_ms
        instance.push_due = True
        instance.last_error = ErrorCode.NONE
        return instance

    def push(self, instance_id: bytes, push: Push, client: Client, connection: object, now_ms: int) -> Instance:
        """PushTelemetry, before its metrics are read. Raises KafkaError."""
        if instance_id in RESERVED_IDS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a push needs a client instance id")
        instance = self._seen(instance_id, client, connection, now_ms)
        try:
            self._check(instance, push, now_ms)
        except KafkaError as refused:
            instance.last_error = refused.code
            raise
        finally:
            instance.terminating = push.terminating
        instance.last_error = ErrorCode.NONE
        return instance

    def _check(self, instance: Instance, push: Push, now_ms: int) -> None:
        if instance.terminating:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the client instance has terminated")
        # A client varies its first interval, so the push after a GetTelemetrySubscriptions is never early.
        if not instance.push_due and _is_early(instance.last_push_ms, instance, now_ms):
            if not push.terminating:
                self._throttle()
        else:
            instance.push_due = False
            instance.last_push_ms = now_ms
        if push.subscription_id != instance.subscription_id:
            self.tally.unknown_subscription += 1
            raise KafkaError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
        if push.compression_type not in Codec.__members__.values():
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if len(push.metrics) > self._bytes_max:
            raise KafkaError(ErrorCode.TELEMETRY_TOO_LARGE)

    def _throttle(self) -> None:
        self.tally.throttled += 1
        raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)

    def _seen(self, instance_id: bytes, client: Client, connection: object, now_ms: int) -> Instance:
        instance = self._instances.get(instance_id)
        if instance is not None and instance.client.principal != client.principal:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the client instance id belongs to another principal")
        if instance is None or instance.version != self._version:
            instance = self._new(instance_id, client, connection if instance is None else instance.connection)
        self._attach(instance, connection)
        instance.expires_ms = now_ms + instance.lifetime_ms
        self._instances.pop(instance_id, None)
        self._instances[instance_id] = instance
        if len(self._instances) > self._instances_max:
            self._remove(next(iter(self._instances.values())))
            self.tally.evicted += 1
        return instance

    def _new(self, instance_id: bytes, client: Client, connection: object) -> Instance:
        """Also when the subscriptions changed: the client may get the new ones at once."""
        wanted = wanted_of(client, instance_id, self._subscriptions)
        return Instance(
            instance_id=instance_id,
            client=client,
            connection=connection,
            version=self._version,
            wanted=wanted,
            subscription_id=subscription_id(wanted, instance_id),
        )

    def _attach(self, instance: Instance, connection: object) -> None:
        former = self._by_connection.get(connection)
        if former is not None and former.instance_id != instance.instance_id:
            self._remove(former)
        if instance.connection != connection:
            self._by_connection.pop(instance.connection, None)
            instance.connection = connection
        self._by_connection[connection] = instance

    def _remove(self, instance: Instance) -> None:
        self._instances.pop(instance.instance_id, None)
        if self._by_connection.get(instance.connection) is instance:
            del self._by_connection[instance.connection]

    def lost(self, connection: object) -> None:
        """A client that reconnects may ask and push at once."""
        instance = self._by_connection.get(connection)
        if instance is not None:
            self._remove(instance)

    def expire(self, now_ms: int) -> None:
        for instance in [each for each in self._instances.values() if each.expires_ms <= now_ms]:
            self._remove(instance)


def _is_early(last_ms: int | None, instance: Instance, now_ms: int) -> bool:
    return last_ms is not None and now_ms - last_ms < instance.wanted.interval_ms
