"""Files that Apache Kafka 4.3.1 wrote: `kafka-storage format --standalone`, then a first start of a combined node."""

from __future__ import annotations

from pathlib import Path

from odradek.metadata.batches import read_batches
from odradek.metadata.bootstrap import decode_bootstrap, decode_voters, encode_bootstrap, encode_voters
from odradek.metadata.image import BROKER_RESOURCE, ClusterImage, Listener
from odradek.protocol.batch import iter_batches, iter_records
from odradek.protocol.control_records import KRaftVersionRecord, LeaderChangeMessage, VotersRecord

FILES = Path(__file__).parent / "kafka_4_3"


def contents(data: bytes) -> list:
    """Everything except the time of writing."""
    return [
        (header.base_offset, header.leader_epoch, header.attributes, [(r.key, r.value) for r in iter_records(batch)])
        for header, batch in iter_batches(data)
    ]


def test_the_voters_checkpoint_is_kafkas():
    written = (FILES / "voters.checkpoint").read_bytes()
    header = next(iter(read_batches(written))).control[0]
    voters = decode_voters(written)
    assert [voter.key.voter_id for voter in voters.voters] == [1]
    assert contents(encode_voters(voters, header.last_contained_log_timestamp)) == contents(written)


def test_the_bootstrap_checkpoint_is_kafkas():
    written = (FILES / "bootstrap.checkpoint").read_bytes()
    assert contents(encode_bootstrap(decode_bootstrap(written), 0)) == contents(written)


def test_the_log_of_a_first_start_is_replayed():
    image = ClusterImage(cluster_id="c")
    control = []
    for batch in read_batches((FILES / "first-start.log").read_bytes()):
        image, _ = image.replay(batch.records, batch.last_offset, batch.leader_epoch)
        control += batch.control
    assert [type(record) for record in control] == [LeaderChangeMessage, KRaftVersionRecord, VotersRecord]
    assert (image.offset, image.epoch) == (21, 1)
    assert image.features["metadata.version"] == 30
    assert image.config(BROKER_RESOURCE, "") == {"min.insync.replicas": "1"}
    broker = image.brokers[1]
    assert broker.broker_epoch == 13
    assert broker.fenced
    assert broker.listeners == (Listener("PLAINTEXT", "127.0.0.1", 39192, 0),)
    assert image.controllers[1].listeners[0].port == 39193
