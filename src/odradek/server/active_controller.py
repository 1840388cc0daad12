"""The active controller: while this node leads the metadata quorum, it decides; anywhere else it refuses.

A decision sees every decision taken before it, committed or not. Its records are appended at once; one fsync at a time
runs off the loop and whatever is appended meanwhile is the next group. Only what the quorum has committed reaches the
image, the listeners and the reply, in that order. A leader that is deposed cannot say what becomes of its decisions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import Offset
from odradek.base.limits import (
    decision_sentence_chars_max,
    metadata_records_per_decision_max,
)
from odradek.controller.activation import activate
from odradek.controller.decision import Decision
from odradek.metadata.image import ClusterImage
from odradek.protocol.schema import Message
from odradek.server.metadata_quorum import MetadataQuorum

R = TypeVar("R")

_log = logging.getLogger(__name__)


class ActiveController:
    def __init__(self, quorum: MetadataQuorum) -> None:
        self._quorum = quorum
        self._active = False
        quorum.on_elected = self._elected
        quorum.on_deposed = self._deposed

    @property
    def is_active(self) -> bool:
        return self._active

    def submit(self, decide: Callable[[ClusterImage], Decision[R]]) -> Awaitable[R]:
        """Decides now, answers once committed. What `decide` raises is raised here: nothing was written then."""
        if not self._active:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "This controller is not active.")
        return self._propose(decide(self._quorum.feed.ahead))

    def stop_deciding(self) -> None:
        """What is decided is still committed and answered."""
        self._active = False

    def _elected(self) -> None:
        self._active = True
        # Whoever fails to commit this has been deposed, and a later leader will do it.
        self._propose(activate(self._quorum.feed.ahead, self._quorum.bootstrap)).add_done_callback(_look_at)

    def _deposed(self) -> None:
        self._active = False

    def _propose(self, decision: Decision[R]) -> asyncio.Future[R]:
        for records in _batches(decision):
            self._append(records)
        if decision.sentence:
            _log.info("%s", decision.sentence[:decision_sentence_chars_max])
        reply: asyncio.Future[R] = asyncio.get_running_loop().create_future()

        def settled(refused: KafkaError | None) -> None:
            if not reply.done():
                reply.set_result(decision.response) if refused is None else reply.set_exception(refused)

        # A decision without records still rests on the uncommitted ones it saw.
        self._quorum.feed.when_settled(settled)
        return reply

    def _append(self, records: Sequence[Message]) -> None:
        before = self._quorum.feed.ahead
        end = Offset(before.offset + len(records))
        # Replayed before it is written: a record that the image refuses must not reach the log.
        image, delta = before.replay(records, end, self._quorum.leader_epoch)
        self._quorum.propose(records, image, delta)


def _look_at(activation: asyncio.Future[None]) -> None:
    if not activation.cancelled():
        activation.exception()


def _batches(decision: Decision[R]) -> list[Sequence[Message]]:
    records, most = decision.records, metadata_records_per_decision_max
    if decision.atomic and len(records) > most:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{len(records)} metadata records are too many for one request.")
    return [records[start : start + most] for start in range(0, len(records), most)]
