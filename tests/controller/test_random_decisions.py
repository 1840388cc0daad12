"""For any order of decisions: a replay of the whole log gives the same image as replaying each decision."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.base.ids import BrokerId, LeaderEpoch, Offset
from odradek.controller.configs import Operation, incremental_alter_configs
from odradek.controller.partitions import create_partitions
from odradek.controller.producer_ids import allocate_producer_ids
from odradek.controller.topics import TopicDefaults, create_topics, delete_topics
from odradek.metadata.image import TOPIC_RESOURCE, ClusterImage
from odradek.protocol.messages import p44_incremental_alter_configs as p44
from odradek.protocol.messages.p19_create_topics import CreatableTopic
from odradek.protocol.messages.p20_delete_topics import DeleteTopicState
from odradek.protocol.messages.p37_create_partitions import CreatePartitionsTopic

NAMES = st.sampled_from(["a", "b", "a.b", "a_b", "c-d"])
STEPS = st.one_of(
    st.tuples(st.just("create"), NAMES, st.integers(1, 4)),
    st.tuples(st.just("delete"), NAMES, st.just(0)),
    st.tuples(st.just("grow"), NAMES, st.integers(1, 6)),
    st.tuples(st.just("configure"), NAMES, st.integers(0, 3)),
    st.tuples(st.just("restart"), st.just(""), st.just(0)),
    st.tuples(st.just("producer"), st.just(""), st.just(0)),
)


def decide(cluster, what: str, name: str, number: int):
    image = cluster.image
    if what == "create":
        topic = CreatableTopic(name=name, num_partitions=number, replication_factor=1)
        return create_topics(image, [topic], defaults=TopicDefaults(), rng=cluster.rng)
    if what == "delete":
        return delete_topics(image, [DeleteTopicState(name=name)])
    if what == "grow":
        grown = CreatePartitionsTopic(name=name, count=number, assignments=None)
        return create_partitions(image, [grown], rng=cluster.rng)
    if what == "configure":
        operation = Operation.SET if number else Operation.DELETE
        change = p44.AlterableConfig(name="retention.ms", config_operation=operation, value=str(number))
        resource = p44.AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configs=[change])
        return incremental_alter_configs(image, [resource])
    return allocate_producer_ids(image, BrokerId(1), image.brokers[1].broker_epoch)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=30), st.integers(1, 7))
def test_full_replay_equals_the_live_image(new_cluster, steps, records_per_commit):
    cluster = new_cluster()
    cluster.add_broker(1)
    for number, (what, name, argument) in enumerate(steps):
        if what == "restart":
            cluster.add_broker(1, incarnation=number + 1)
        else:
            cluster.take(decide(cluster, what, name, argument))
    replayed = ClusterImage(cluster_id=cluster.image.cluster_id)
    for start in range(0, len(cluster.records), records_per_commit):
        chunk = cluster.records[start : start + records_per_commit]
        # Commits of any size: the boundaries between decisions do not affect the image.
        replayed, _ = replayed.replay(chunk, Offset(replayed.offset + len(chunk)), LeaderEpoch(1))
    assert replayed == cluster.image
