"""From the metadata log to the image: what is in the log waits here until the quorum has committed it.

The same on the leader, on followers and on observers. A leader also needs to know what will be true once everything in
its log is committed (`ahead`): it decides on that. A follower replays only what is committed, a stretch at a time.
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
# Called once, with the reason why not when it will not be committed as far as this node can tell.
Verdict = Callable[[KafkaError | None], None]


class _Stretch:
    """Batches that follow each other, not all of them committed."""

    __slots__ = ("after", "batches", "waiting")

    def __init__(self, batches: list[MetadataBatch]) -> None:
        self.batches = batches
        # What is true behind the last batch and what this stretch changed, where a leader has worked it out.
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
        # What is committed.
        self.image = image
        self._stretches: deque[_Stretch] = deque()
        self._listeners: list[Listener] = []
        self._once: list[Callable[[], None]] = []

    def subscribe(self, listener: Listener) -> None:
        """Called for each commit, in order, before anybody who waits for it is told."""
        self._listeners.append(listener)

    def once(self, callback: Callable[[], None]) -> None:
        """Called after the next commit."""
        self._once.append(callback)

    @property
    def end_offset(self) -> Offset:
        """Where the log goes on, as far as this feed has seen it."""
        last = self._stretches[-1].last_offset if self._stretches else self.image.offset
        return Offset(last + 1)

    @property
    def ahead(self) -> ClusterImage:
        """What will be true once all of the log is committed."""
        if self._stretches and (newest := self._stretches[-1].after):
            return newest[0]
        image = self.image
        for stretch in self._stretches:
            if stretch.after is None:
                stretch.after = _replayed(image, stretch.batches)
            image = stretch.after[0]
        return image

    def appended(self, batches: list[MetadataBatch]) -> None:
        """In the log now, and not known to be committed."""
        if batches:
            self._stretches.append(_Stretch(batches))

    def proposed(self, records: Sequence[Message], image: ClusterImage, delta: ImageDelta) -> None:
        """By the leader, who has replayed the records on `ahead` and found them good."""
        stretch = _Stretch([MetadataBatch(image.offset, image.epoch, [], list(records))])
        stretch.after = (image, delta)
        self._stretches.append(stretch)

    def when_settled(self, verdict: Verdict) -> None:
        """Told once everything now in the log is committed; at once when it is."""
        if self._stretches:
            self._stretches[-1].waiting.append(verdict)
        else:
            verdict(None)

    def committed(self, high_watermark: Offset) -> None:
        """Everything below is true for good: listeners hear of it, then those who wait."""
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
        """A new leader's log differs from here on."""
        invariant(end_offset > self.image.offset, "committed metadata was truncated")
        while self._stretches and self._stretches[-1].last_offset >= end_offset:
            stretch = self._stretches[-1]
            kept = [batch for batch in stretch.batches if batch.last_offset < end_offset]
            invariant(not stretch.waiting, "somebody waits for metadata of a leader that is none any more")
            stretch.batches, stretch.after = kept, None
            if kept:
                return
            self._stretches.pop()

    def give_up(self, why: KafkaError) -> None:
        """This node leads no more: whether what it wrote is committed will be for others to say."""
        for stretch in self._stretches:
            stretch.tell(why)

    def reset(self, image: ClusterImage) -> None:
        """A snapshot takes the place of the log: the image jumps there."""
        invariant(image.offset > self.image.offset, "a snapshot that is older than what is committed")
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
    """All at once: replaying batch by batch would copy a shard of the image for each."""
    records = [record for batch in batches for record in batch.records]
    return image.replay(records, batches[-1].last_offset, batches[-1].leader_epoch)
