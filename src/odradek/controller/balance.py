"""Moves leadership back to the first replica of each partition: the placement gives every broker its share of them."""

from __future__ import annotations

from odradek.controller.decision import Decision
from odradek.controller.electorate import Electorate
from odradek.controller.partition_changes import Election, PartitionChange
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.image import ClusterImage
from odradek.protocol.metadata_records import PartitionChangeRecord

# As in Kafka: limits the leader changes at once.
ELECTIONS_PER_ROUND = 1000


def balance_interval_ms(config: BrokerConfig) -> int | None:
    """The interval of balancing; None: never."""
    return config.leader_imbalance_check_interval_seconds * 1000 if config.auto_leader_rebalance_enable else None


def balance_leaders(image: ClusterImage, config: BrokerConfig, most: int = ELECTIONS_PER_ROUND) -> Decision[bool]:
    """The response is whether there may be more to do at once."""
    electorate = Electorate(image, config)
    records: list[PartitionChangeRecord] = []
    for topic in image.topics.values():
        for partition in topic.partitions:
            preferred = partition.replicas[0]
            if partition.leader == preferred or not electorate.may_lead(partition, preferred):
                continue
            change = PartitionChange(topic, partition, electorate)
            change.election = Election.PREFERRED
            record = change.record()
            if record is not None:
                records.append(record)
            if len(records) == most:
                return _balanced(records, more=True)
    return _balanced(records, more=False)


def _balanced(records: list[PartitionChangeRecord], *, more: bool) -> Decision[bool]:
    sentence = f"returned {len(records)} partition(s) to their first replica" if records else ""
    return Decision(records=tuple(records), response=more, sentence=sentence, atomic=False)
