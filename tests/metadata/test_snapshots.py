"""Snapshots: an image is written as records and read again, by our own reader and from Kafka's directories."""

from __future__ import annotations

import pytest

from odradek.base.ids import BrokerId, DirectoryId, LeaderEpoch, Offset
from odradek.metadata.bootstrap import BrokenCheckpoint
from odradek.metadata.image import BrokerRegistration, ClusterImage, FeatureRange, Listener
from odradek.metadata.metadata_log import image_of_snapshot
from odradek.metadata.snapshots import decode_snapshot, encode_snapshot
from odradek.metadata.voter_history import VoterHistory
from odradek.protocol.metadata_records import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from odradek.quorum.log_facts import SnapshotId
from odradek.quorum.voters import Endpoint, Voter, VoterKey, VoterSet

WALL_MS = 1_750_000_000_000
VOTERS = VoterSet(
    (Voter(key=VoterKey(BrokerId(1), DirectoryId(b"d" * 16)), endpoints=(Endpoint("CONTROLLER", "h", 9093),)),)
)


def image(topics: int = 3) -> ClusterImage:
    records = [
        FeatureLevelRecord(name="metadata.version", feature_level=25),
        RegisterBrokerRecord(broker_id=1, incarnation_id=b"i" * 16, broker_epoch=7, rack="r", log_dirs=[b"d" * 16]),
        ProducerIdsRecord(next_producer_id=3000),
        ConfigRecord(resource_type=2, resource_name="t0", name="retention.ms", value="1"),
        ConfigRecord(resource_type=4, resource_name="", name="x", value="y"),
    ]
    for number in range(topics):
        topic_id = (number + 1).to_bytes(16, "big")
        records.append(TopicRecord(name=f"t{number}", topic_id=topic_id))
        records.append(
            PartitionRecord(
                partition_id=0,
                topic_id=topic_id,
                replicas=[1, 2, 3],
                isr=[1, 2],
                leader=1,
                leader_epoch=5,
                partition_epoch=9,
                adding_replicas=[3],
                directories=[b"d" * 16] * 3,
                eligible_leader_replicas=[3],
                leader_recovery_state=1,
            )
        )
    found, _ = ClusterImage(cluster_id="c").replay(records, Offset(41), LeaderEpoch(4))
    return found


def read_back(content: bytes) -> tuple[ClusterImage, VoterHistory]:
    voters = VoterHistory()
    snapshot = SnapshotId(Offset(42), LeaderEpoch(4))
    return image_of_snapshot(decode_snapshot(content, "it"), snapshot, ClusterImage(cluster_id="c"), voters), voters


def test_a_written_snapshot_is_read_again():
    before = image()
    after, voters = read_back(encode_snapshot(before, VOTERS, WALL_MS))
    assert after == before
    assert voters.newest == VOTERS
    assert voters.newest_offset == 41


def test_many_records_are_several_batches():
    before = image(topics=200)
    content = encode_snapshot(before, VOTERS, WALL_MS)
    assert read_back(content)[0] == before


@pytest.mark.parametrize(
    "damage", [lambda c: c[:-70], lambda c: c[:400] + bytes([c[400] ^ 1]) + c[401:], lambda c: c[:-1]]
)
def test_a_damaged_snapshot_is_refused(damage):
    with pytest.raises(BrokenCheckpoint):
        read_back(damage(encode_snapshot(image(), VOTERS, WALL_MS)))


def test_snapshots_keep_all_fields_of_broker_registrations():
    registration = BrokerRegistration(
        broker_id=BrokerId(3),
        broker_epoch=11,
        incarnation_id=b"j" * 16,
        listeners=(Listener("PLAINTEXT", "host", 9092, 0),),
        features={"metadata.version": FeatureRange(7, 25)},
        rack=None,
        fenced=False,
        in_controlled_shutdown=True,
        directories=(DirectoryId(b"e" * 16),),
    )
    before = ClusterImage(cluster_id="c", offset=Offset(41), epoch=LeaderEpoch(4), brokers={3: registration})
    after, _ = read_back(encode_snapshot(before, VOTERS, WALL_MS))
    assert after.brokers == {3: registration}
