"""Builds the image from the metadata log: appended records wait here until the quorum has committed them.

The same on the leader, on followers and on observers. A leader bases its decisions on the state after all records of
its log (`ahead`). A follower replays only committed records, a stretch at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from odradek.base.errors import KafkaError
from odradek.base.ids import Offset
from odradek.base.invariants import invariant
from odradek.metadata.batches import MetadataBatch
from odradek.metadata.image import ClusterImage, ImageDelta
from odradek.protocol.schema import Message

Listener = Callable[[ClusterImage, ImageDelta], None]
# Called once: with None when committed, or with the error when this node will not learn the outcome.
Verdict = Callable[[KafkaError | None], None]


class _Stretch:
    """Consecutive batches that are not all committed."""

    __slots__ = ("after", "batches", "waiting")

    def __init__(self, batches: list[MetadataBatch]) -> None:
        self.batches = batches
        # The image after the last batch, and the changes of this stretch, if a leader has computed them.
        self.after: tuple[ClusterImage, ImageDelta] | None = None
        self.waiting: list[Verdict] = []

    @property
    def last_offset(self) -> Offset:
        return self.batches[-1].last_offset

    def tell(self, verdict: KafkaError | None) -> None:
        waiting, self.waiting = self.waiting, []
        for callback in waiting:
            callback(verdict)


class MetadataFeed:
    def __init__(self, image: ClusterImage) -> None:
        # The committed state.
        self.image = image
        self._stretches: deque[_Stretch] = deque()
        self._listeners: list[Listener] = []
        self._once: list[Callable[[], None]] = []

    def subscribe(self, listener: Listener) -> None:
        """The listener is called for each commit, in order, before the callbacks of `when_settled`."""
        self._listeners.append(listener)

    def once(self, callback: Callable[[], None]) -> None:
        """The callback is called after the next commit."""
        self._once.append(callback)

    @property
    def end_offset(self) -> Offset:
        """The end of the log, as far as this feed has seen it."""
        last = self._stretches[-1].last_offset if self._stretches else self.image.offset
        return Offset(last + 1)

    @property
    def ahead(self) -> ClusterImage:
        """The state once all of the log is committed."""
        if self._stretches and (newest := self._stretches[-1].after):
            return newest[0]
        image = self.image
        for stretch in self._stretches:
            if stretch.after is None:
                stretch.after = _replayed(image, stretch.batches)
            image = stretch.after[0]
        return image

    def appended(self, batches: list[MetadataBatch]) -> None:
        """Takes batches that were appended and are not known to be committed."""
        if batches:
            self._stretches.append(_Stretch(batches))

    def proposed(self, records: Sequence[Message], image: ClusterImage, delta: ImageDelta) -> None:
        """Takes records of the leader, which has replayed them on `ahead` already."""
        stretch = _Stretch([MetadataBatch(image.offset, image.epoch, [], list(records))])
        stretch.after = (image, delta)
        self._stretches.append(stretch)

    def when_settled(self, verdict: Verdict) -> None:
        """Calls `verdict` once all records that are now in the log are committed."""
        if self._stretches:
            self._stretches[-1].waiting.append(verdict)
        else:
            verdict(None)

    def committed(self, high_watermark: Offset) -> None:
        """Publishes the records below the high watermark: first to listeners, then to waiting callbacks."""
        unseen: list[MetadataBatch] = []
        told: list[_Stretch] = []
        while self._stretches and self._stretches[0].last_offset < high_watermark:
            stretch = self._stretches.popleft()
            if stretch.after is None:
                unseen += stretch.batches
                told.append(stretch)
                continue
            self._publish_batches(unseen, told)
            unseen, told = [], []
            self._publish(*stretch.after)
            stretch.tell(None)
        if self._stretches:
            unseen += self._split(self._stretches[0], high_watermark)
        self._publish_batches(unseen, told)

    def truncated(self, end_offset: Offset) -> None:
        """Drops records from this offset on, where a new leader's log differs."""
        invariant(end_offset > self.image.offset, "committed metadata was truncated")
        while self._stretches and self._stretches[-1].last_offset >= end_offset:
            stretch = self._stretches[-1]
            kept = [batch for batch in stretch.batches if batch.last_offset < end_offset]
            invariant(not stretch.waiting, "a callback waits for truncated metadata")
            stretch.batches, stretch.after = kept, None
            if kept:
                return
            self._stretches.pop()

    def give_up(self, why: KafkaError) -> None:
        """This node no longer leads: fails the waiting callbacks, as it may not learn the fate of its records."""
        for stretch in self._stretches:
            stretch.tell(why)

    def reset(self, image: ClusterImage) -> None:
        """Replaces the log with a snapshot."""
        invariant(image.offset > self.image.offset, "the snapshot is older than the committed metadata")
        self._stretches.clear()
        self._publish(image, image.since(self.image))

    def _split(self, stretch: _Stretch, high_watermark: Offset) -> list[MetadataBatch]:
        below = [batch for batch in stretch.batches if batch.last_offset < high_watermark]
        if below:
            stretch.batches = stretch.batches[len(below) :]
            stretch.after = None
        return below

    def _publish_batches(self, batches: list[MetadataBatch], told: list[_Stretch]) -> None:
        if batches:
            self._publish(*_replayed(self.image, batches))
        for stretch in told:
            stretch.tell(None)

    def _publish(self, image: ClusterImage, delta: ImageDelta) -> None:
        self.image = image
        for listener in self._listeners:
            listener(image, delta)
        once, self._once = self._once, []
        for callback in once:
            callback()


def _replayed(image: ClusterImage, batches: list[MetadataBatch]) -> tuple[ClusterImage, ImageDelta]:
    """Replays all batches at once: batch by batch would copy shards of the image for each."""
    records = [record for batch in batches for record in batch.records]
    return image.replay(records, batches[-1].last_offset, batches[-1].leader_epoch)
