"""Appended and committed metadata, on leaders and on followers."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import LeaderEpoch, Offset
from odradek.base.invariants import InvariantBroken
from odradek.metadata.batches import MetadataBatch
from odradek.metadata.feed import MetadataFeed
from odradek.metadata.image import ClusterImage, ImageDelta
from odradek.protocol.metadata_records import PartitionRecord, RemoveTopicRecord, TopicRecord

EPOCH = LeaderEpoch(1)


def topic_id(number: int) -> bytes:
    return bytes(15) + bytes([number])


def topic(number: int) -> list:
    return [
        TopicRecord(name=f"t{number}", topic_id=topic_id(number)),
        PartitionRecord(partition_id=0, topic_id=topic_id(number), replicas=[1], isr=[1], leader=1),
    ]


def batch(last_offset: int, *records) -> MetadataBatch:
    return MetadataBatch(Offset(last_offset), EPOCH, [], list(records))


class Follower:
    def __init__(self) -> None:
        self.feed = MetadataFeed(ClusterImage(cluster_id="c"))
        self.heard: list[tuple[int, list[str]]] = []
        self.feed.subscribe(self._hear)

    def _hear(self, image: ClusterImage, delta: ImageDelta) -> None:
        self.heard.append((image.offset, [created.name for created in delta.created]))


def test_records_are_not_published_before_they_are_committed():
    follower = Follower()
    follower.feed.appended([batch(1, *topic(1)), batch(3, *topic(2))])
    assert list(follower.feed.image.topics) == []
    follower.feed.committed(Offset(2))
    assert list(follower.feed.image.topics) == ["t1"]
    follower.feed.committed(Offset(4))
    assert follower.heard == [(1, ["t1"]), (3, ["t2"])]


def test_a_long_stretch_is_replayed_at_once():
    follower = Follower()
    follower.feed.appended([batch(1, *topic(1))])
    follower.feed.appended([batch(3, *topic(2)), batch(5, *topic(3))])
    follower.feed.committed(Offset(6))
    assert follower.heard == [(5, ["t1", "t2", "t3"])]


def test_a_new_leader_bases_decisions_on_its_whole_log():
    feed = MetadataFeed(ClusterImage(cluster_id="c"))
    feed.appended([batch(1, *topic(1)), batch(3, *topic(2))])
    assert sorted(feed.ahead.topics) == ["t1", "t2"]
    image, delta = feed.ahead.replay(topic(3), Offset(5), EPOCH)
    feed.proposed(topic(3), image, delta)
    assert feed.end_offset == 6
    assert list(feed.image.topics) == []


def test_waiting_callbacks_are_called_after_the_listeners():
    follower, told = Follower(), []
    follower.feed.appended([batch(1, *topic(1))])
    follower.feed.when_settled(lambda verdict: told.append((verdict, list(follower.heard))))
    follower.feed.committed(Offset(2))
    assert told == [(None, [(1, ["t1"])])]
    follower.feed.when_settled(lambda verdict: told.append((verdict, [])))
    assert told[-1] == (None, [])


def test_truncated_records_are_dropped():
    feed = MetadataFeed(ClusterImage(cluster_id="c"))
    feed.appended([batch(1, *topic(1)), batch(3, *topic(2)), batch(5, *topic(3))])
    assert len(feed.ahead.topics) == 3
    feed.truncated(Offset(4))
    assert sorted(feed.ahead.topics) == ["t1", "t2"]
    feed.appended([batch(4, RemoveTopicRecord(topic_id=topic_id(1)))])
    feed.committed(Offset(5))
    assert sorted(feed.image.topics) == ["t2"]


def test_committed_metadata_is_never_truncated():
    feed = MetadataFeed(ClusterImage(cluster_id="c"))
    feed.appended([batch(1, *topic(1)), batch(3, *topic(2))])
    feed.committed(Offset(2))
    with pytest.raises(InvariantBroken):
        feed.truncated(Offset(1))


def test_a_deposed_leader_fails_its_waiting_callbacks():
    feed, told = MetadataFeed(ClusterImage(cluster_id="c")), []
    feed.appended([batch(1, *topic(1))])
    feed.when_settled(told.append)
    feed.give_up(KafkaError(ErrorCode.NOT_CONTROLLER))
    assert [verdict.code for verdict in told] == [ErrorCode.NOT_CONTROLLER]
    feed.truncated(Offset(0))
    assert feed.end_offset == 0


def test_a_snapshot_is_published_as_one_delta():
    follower = Follower()
    follower.feed.appended([batch(1, *topic(1)), batch(3, *topic(2))])
    follower.feed.committed(Offset(4))
    follower.feed.appended([batch(5, *topic(3))])
    later, _ = ClusterImage(cluster_id="c").replay([*topic(2), *topic(4)], Offset(9), EPOCH)
    deltas: list[ImageDelta] = []
    follower.feed.subscribe(lambda _image, delta: deltas.append(delta))
    follower.feed.reset(later)
    (delta,) = deltas
    assert [gone.name for gone in delta.deleted] == ["t1"]
    assert [new.name for new in delta.created] == ["t4"]
    assert delta.changed == ()
    assert follower.feed.end_offset == 10


def test_a_committed_record_that_cannot_be_applied_stops_the_node():
    """KAFKA-14275: this node would continue with a different state than the others."""
    follower = Follower()
    orphan = PartitionRecord(partition_id=0, topic_id=topic_id(9), replicas=[1], isr=[1], leader=1)
    follower.feed.appended([batch(1, *topic(1)), batch(2, orphan), batch(4, *topic(2))])
    with pytest.raises(InvariantBroken, match="no topic has the id"):
        follower.feed.committed(Offset(5))
    assert follower.feed.image.offset < 2
