"""What the runtime asks of a state machine that it hosts on one internal partition."""

from __future__ import annotations

from typing import Any, Protocol

from odradek.base.ids import Offset, ProducerId
from odradek.coordinator.effects import Effects, Now, TimerKey
from odradek.metadata.image import ClusterImage, ImageDelta


class Shard(Protocol):
    """Every method is one turn: it runs to its end before the next one begins."""

    def encode(self, change: Any) -> tuple[bytes, bytes | None]: ...  # noqa: ANN401

    def decode(self, key: bytes, value: bytes | None) -> Any: ...  # noqa: ANN401

    def replay(self, change: Any, at: Offset, producer_id: ProducerId) -> None:  # noqa: ANN401
        """A change that is in the log at `at`. With a producer id it is pending until that producer's marker."""

    def replay_marker(self, producer_id: ProducerId, committed: bool, at: Offset) -> None:
        """The transaction of this producer ends in this partition."""

    def commit(self, high_watermark: Offset) -> None:
        """Everything below is committed."""

    def loaded(self, now: Now, image: ClusterImage) -> Effects:
        """The whole log has been replayed and is committed: requests follow."""

    def unload(self, now: Now) -> Effects:
        """The leadership is over. Replies to everything that waits."""

    def timer_fired(self, key: TimerKey, now: Now) -> Effects: ...

    def metadata_changed(self, now: Now, image: ClusterImage, delta: ImageDelta) -> Effects:
        """Only called after `loaded`."""
