"""Replaying metadata records: the content of images and deltas, and what two images share."""

from __future__ import annotations

import pytest

from odradek.base.ids import LeaderEpoch, Offset
from odradek.base.invariants import InvariantBroken
from odradek.metadata.image import TOPIC_RESOURCE, ClusterImage, ConfigResource
from odradek.protocol.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ClearElrRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)

EMPTY = ClusterImage(cluster_id="c")
ORDERS, INVOICES = b"o" * 16, b"i" * 16


def topic(name: str, topic_id: bytes, partitions: int = 1) -> list:
    return [TopicRecord(name=name, topic_id=topic_id)] + [
        PartitionRecord(
            partition_id=p, topic_id=topic_id, replicas=[1], isr=[1], leader=1, leader_epoch=0, partition_epoch=0
        )
        for p in range(partitions)
    ]


def after(image: ClusterImage, *records):
    return image.replay(records, Offset(image.offset + len(records)), LeaderEpoch(1))


def test_a_created_topic_is_found_by_name_and_by_id():
    image, delta = after(EMPTY, *topic("orders", ORDERS, 3))
    assert image.topics["orders"] is image.topics_by_id[ORDERS]
    assert [p.index for p in image.topics["orders"].partitions] == [0, 1, 2]
    assert delta.created == (image.topics["orders"],)
    assert image.offset == 3
    assert EMPTY.offset == -1
    assert not EMPTY.topics


def test_untouched_topics_are_the_same_objects():
    before, _ = after(EMPTY, *topic("orders", ORDERS), *topic("invoices", INVOICES))
    following, delta = after(before, PartitionChangeRecord(partition_id=0, topic_id=ORDERS, leader=2, isr=[2]))
    assert following.topics["invoices"] is before.topics["invoices"]
    assert before.topics["orders"].partitions[0].leader == 1
    changed = following.topics["orders"].partitions[0]
    assert (changed.leader, changed.leader_epoch, changed.partition_epoch, changed.isr) == (2, 1, 1, (2,))
    assert delta.changed == ((before.topics["orders"], following.topics["orders"]),)


def test_a_change_without_a_leader_keeps_the_leader_epoch():
    image, _ = after(EMPTY, *topic("orders", ORDERS))
    image, _ = after(image, PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=[1]))
    assert image.topics["orders"].partitions[0].leader_epoch == 0
    assert image.topics["orders"].partitions[0].partition_epoch == 1


@pytest.mark.parametrize(("named", "cleared"), [("orders", [True, False]), ("", [True, True])])
def test_clear_elr_applies_to_one_topic_or_to_all(named, cleared):
    known = [
        PartitionChangeRecord(partition_id=0, topic_id=topic_id, eligible_leader_replicas=[2], last_known_elr=[3])
        for topic_id in (ORDERS, INVOICES)
    ]
    before, _ = after(EMPTY, *topic("orders", ORDERS), *topic("invoices", INVOICES), *known)
    image, _ = after(before, ClearElrRecord(topic_name=named))
    partitions = [image.topics[name].partitions[0] for name in ("orders", "invoices")]
    assert [(p.elr, p.last_known_elr) == ((), ()) for p in partitions] == cleared
    assert [p.partition_epoch for p in partitions] == [1 + gone for gone in cleared]
    again, _ = after(image, ClearElrRecord(topic_name="orders"))
    assert again.topics["orders"].partitions[0].partition_epoch == partitions[0].partition_epoch


def test_deleting_a_topic_removes_its_configs():
    setting = ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="orders", name="retention.ms", value="1")
    image, _ = after(EMPTY, *topic("orders", ORDERS), setting)
    assert image.config(TOPIC_RESOURCE, "orders") == {"retention.ms": "1"}
    image, delta = after(image, RemoveTopicRecord(topic_id=ORDERS))
    assert "orders" not in image.topics
    assert ORDERS not in image.topics_by_id
    assert image.config(TOPIC_RESOURCE, "orders") == {}
    assert [t.name for t in delta.deleted] == ["orders"]
    assert delta.configs == (ConfigResource(TOPIC_RESOURCE, "orders"),)


def test_a_topic_deleted_and_created_again_in_one_commit_is_in_both_lists():
    image, _ = after(EMPTY, *topic("a.b", ORDERS))
    image, delta = after(image, RemoveTopicRecord(topic_id=ORDERS), *topic("a.b", INVOICES, 2))
    assert [t.topic_id for t in delta.deleted] == [ORDERS]
    assert [t.topic_id for t in delta.created] == [INVOICES]
    assert image.topics["a.b"].topic_id == INVOICES
    assert image.colliding_names["a_b"] == "a.b"


def test_colliding_names_in_one_commit_keep_the_last_one():
    image, _ = after(EMPTY, *topic("a.b", ORDERS))
    image, _ = after(
        image,
        RemoveTopicRecord(topic_id=ORDERS),
        *topic("a_b", INVOICES),
        RemoveTopicRecord(topic_id=INVOICES),
        *topic("a.b", b"n" * 16),
    )
    assert dict(image.colliding_names) == {"a_b": "a.b"}


def test_a_topic_created_and_deleted_in_one_commit_is_not_in_the_delta():
    image, delta = after(EMPTY, *topic("orders", ORDERS), RemoveTopicRecord(topic_id=ORDERS))
    assert len(image.topics) == len(image.topics_by_id) == 0
    assert delta.created == delta.deleted == ()


def test_a_transaction_is_applied_when_it_ends():
    image, delta = after(EMPTY, BeginTransactionRecord(name="x"), FeatureLevelRecord(name="f", feature_level=3))
    assert image.features == {}
    image, _ = after(image, *topic("orders", ORDERS))
    assert not image.topics
    image, delta = after(image, EndTransactionRecord())
    assert image.features == {"f": 3}
    assert [t.name for t in delta.created] == ["orders"]
    assert image.transaction is None


def test_an_aborted_transaction_leaves_nothing():
    image, _ = after(EMPTY, BeginTransactionRecord(), *topic("orders", ORDERS), AbortTransactionRecord())
    assert not image.topics
    assert image.transaction is None


@pytest.mark.parametrize(
    "contradiction",
    [
        [PartitionRecord(partition_id=0, topic_id=ORDERS)],
        [RemoveTopicRecord(topic_id=ORDERS)],
        [*topic("orders", ORDERS), TopicRecord(name="orders", topic_id=INVOICES)],
        [TopicRecord(name="orders", topic_id=ORDERS), PartitionRecord(partition_id=1, topic_id=ORDERS)],
        [ProducerIdsRecord(next_producer_id=1000), ProducerIdsRecord(next_producer_id=1000)],
        [EndTransactionRecord()],
        [*topic("orders", ORDERS), PartitionChangeRecord(partition_id=9, topic_id=ORDERS, leader=1)],
    ],
)
def test_a_record_that_contradicts_the_image_stops_the_node(contradiction):
    with pytest.raises(InvariantBroken):
        after(EMPTY, *contradiction)


def test_the_whole_image_as_a_delta():
    image, _ = after(EMPTY, *topic("orders", ORDERS), *topic("invoices", INVOICES))
    assert sorted(t.name for t in image.as_delta().created) == ["invoices", "orders"]
