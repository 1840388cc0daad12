"""A broker's membership of its cluster (KIP-631): it registers, sends heartbeats, is unfenced once it has caught up.

Each start is a new incarnation with a broker epoch of its own. A broker whose id another incarnation takes stops.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from odradek.base.errors import ErrorCode, KafkaError, error_code
from odradek.base.ports import Clock, Spawner
from odradek.controller.brokers import Registration
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.feed import MetadataFeed
from odradek.metadata.image import ControllerRegistration
from odradek.metadata.registrations import written_features, written_listeners
from odradek.protocol.messages import p70_controller_registration
from odradek.protocol.messages.p62_broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from odradek.protocol.messages.p63_broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from odradek.protocol.messages.p70_controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from odradek.server.controller.controller_channel import ControllerChannel

logger = logging.getLogger(__name__)

RETRY_PAUSE_S = 0.05
RETRY_PAUSE_MAX_S = 1.0
CONTROLLER_TIMEOUT_MS = 5_000
# A retry would not help: the directory or the configuration is wrong.
HOPELESS = (
    ErrorCode.INCONSISTENT_CLUSTER_ID,
    ErrorCode.INVALID_REGISTRATION,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
)
# How long a broker waits for its leaderships to move before it stops anyway (KIP-631's controlled shutdown).
LEAVE_TIMEOUT_MS = 30_000
# Longer than an election takes: if all controllers are stopped before a broker, no controller will answer.
NOBODY_THERE_MS = 3_000


async def register_controller(channel: ControllerChannel, itself: ControllerRegistration) -> None:
    """Registers this controller, so that other nodes learn its address and features. Retries until it succeeds."""
    request = ControllerRegistrationRequest(
        controller_id=itself.controller_id,
        incarnation_id=itself.incarnation_id,
        listeners=written_listeners(p70_controller_registration.Listener, itself.listeners),
        features=written_features(p70_controller_registration.Feature, itself.features),
    )
    pause_s = RETRY_PAUSE_S
    while True:
        with suppress(KafkaError):
            answer = await channel.ask(request, ControllerRegistrationResponse, timeout_ms=CONTROLLER_TIMEOUT_MS)
            if not answer.error_code:
                return
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, RETRY_PAUSE_MAX_S)


class BrokerReplaced(Exception):
    """Another process has registered under this broker's id."""


class BrokerLifecycle:
    def __init__(
        self,
        *,
        channel: ControllerChannel,
        registration: Registration,
        config: BrokerConfig,
        feed: MetadataFeed,
        clock: Clock,
        spawner: Spawner,
        nobody_decides: Callable[[], bool],
    ) -> None:
        self._channel = channel
        # Whether this node knows that no controller can be elected as things are.
        self._nobody_decides = nobody_decides
        self._registration = registration
        self._config = config
        self._feed = feed
        self._clock = clock
        self._spawner = spawner
        self.broker_epoch = -1
        self._ready = False
        self._leaving = False
        self._unfenced = asyncio.Event()
        self._may_end = asyncio.Event()
        self._at_once = asyncio.Event()
        self._heartbeats: asyncio.Task[None] | None = None
        self._heard_ms = clock.monotonic_ms()

    async def register(self) -> int:
        """The broker epoch. Waits for an active controller for as long as it takes."""
        pause_s = RETRY_PAUSE_S
        while True:
            refusal = await self._try_to_register()
            if refusal is ErrorCode.NONE:
                break
            if refusal in HOPELESS:
                broker_id = self._registration.broker_id
                raise KafkaError(refusal, f"the controller refuses to register broker {broker_id}: {refusal.name}")
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_PAUSE_MAX_S)
        self._heartbeats = self._spawner.spawn("broker heartbeats", self._beat())
        # Then this broker has applied all earlier decisions.
        await self._seen(lambda: self._feed.image.offset >= self.broker_epoch)
        return self.broker_epoch

    async def serve(self) -> None:
        """Asks to be unfenced. Returns once this node's own image shows that it is."""
        self._ready = True
        self._at_once.set()
        await self._unfenced.wait()
        await self._seen(lambda: not self._feed.image.brokers[self._registration.broker_id].fenced)

    async def leave(self) -> None:
        """Waits until other brokers lead its partitions; not for ever, nor when no controller can arrange it."""
        self._leaving = True
        self._heard_ms = self._clock.monotonic_ms()
        self._at_once.set()
        deadline_ms = self._heard_ms + LEAVE_TIMEOUT_MS
        while not self._may_end.is_set() and self._clock.monotonic_ms() < deadline_ms:
            if self._nobody_decides():
                # No warning: this happens to the last node of every cluster that is stopped.
                logger.info("most voters are gone: leaving without handing over")
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY_PAUSE_S):
                    await self._may_end.wait()
        self.stop()

    def hurry(self) -> None:
        """The connection to the controller broke, or the controller changed: send a heartbeat at once."""
        self._at_once.set()

    def stop(self) -> None:
        if self._heartbeats is not None:
            self._heartbeats.cancel()

    async def _try_to_register(self) -> ErrorCode:
        wanted = self._registration
        request = BrokerRegistrationRequest(
            broker_id=wanted.broker_id,
            cluster_id=wanted.cluster_id,
            incarnation_id=wanted.incarnation_id,
            listeners=written_listeners(Listener, wanted.listeners),
            features=written_features(Feature, wanted.features),
            rack=wanted.rack,
            log_dirs=list(wanted.directories),
            previous_broker_epoch=wanted.previous_broker_epoch,
        )
        try:
            answer = await self._channel.ask(
                request, BrokerRegistrationResponse, timeout_ms=self._config.broker_session_timeout_ms
            )
        except KafkaError as lost:
            return lost.code
        self.broker_epoch = answer.broker_epoch
        return error_code(answer.error_code)

    async def _seen(self, holds: Callable[[], bool]) -> None:
        """Waits until `holds` is true of this node's own image."""
        while not holds():
            seen = asyncio.Event()
            self._feed.once(seen.set)
            await seen.wait()

    async def _beat(self) -> None:
        interval_s = self._config.broker_heartbeat_interval_ms / 1000
        while True:
            self._at_once.clear()
            heard = await self._heartbeat()
            pause_s = interval_s if heard else min(interval_s, 10 * RETRY_PAUSE_S)
            if self._leaving or (self._ready and not self._unfenced.is_set()):
                pause_s = min(pause_s, RETRY_PAUSE_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._at_once.wait()

    async def _heartbeat(self) -> bool:
        request = BrokerHeartbeatRequest(
            broker_id=self._registration.broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._feed.image.offset,
            want_fence=not self._ready,
            want_shut_down=self._leaving,
        )
        try:
            answer = await self._channel.ask(
                request, BrokerHeartbeatResponse, timeout_ms=self._config.broker_session_timeout_ms // 2
            )
        except KafkaError as lost:
            self._unheard(lost)
            return False
        self._heard_ms = self._clock.monotonic_ms()
        code = error_code(answer.error_code)
        if code is ErrorCode.STALE_BROKER_EPOCH:
            raise BrokerReplaced(f"another process has registered as broker {self._registration.broker_id}")
        if code is not ErrorCode.NONE:
            return False
        if not answer.is_fenced:
            self._unfenced.set()
        if answer.should_shut_down:
            self._may_end.set()
        return True

    def _unheard(self, lost: KafkaError) -> None:
        silent_ms = self._clock.monotonic_ms() - self._heard_ms
        if self._leaving and silent_ms > NOBODY_THERE_MS:
            logger.warning("no controller answers: leaving without handing over")
            self._may_end.set()
        else:
            logger.debug("no heartbeat reached the controller: %s", lost)
