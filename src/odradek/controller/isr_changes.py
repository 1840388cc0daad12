"""AlterPartition: a partition's leader proposes a new ISR, as a compare-and-set on the epochs that it knows."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import BrokerId
from odradek.controller import safeguards
from odradek.controller.brokers import check_broker_epoch
from odradek.controller.decision import Decision
from odradek.controller.electorate import Electorate
from odradek.controller.partition_changes import Election, PartitionChange, Recovery
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.image import ClusterImage, PartitionImage, TopicImage
from odradek.metadata.replay import LEADER_UNCHANGED, changed_partition
from odradek.protocol.messages.p56_alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    BrokerState,
)
from odradek.protocol.metadata_records import PartitionChangeRecord

_ANY_EPOCH = -1


def alter_partition(
    image: ClusterImage, request: AlterPartitionRequest, config: BrokerConfig
) -> Decision[AlterPartitionResponse]:
    check_broker_epoch(image, BrokerId(request.broker_id), request.broker_epoch)
    proposals = _Proposals(image, BrokerId(request.broker_id), config)
    response = AlterPartitionResponse(topics=[proposals.topic(topic) for topic in request.topics])
    return Decision(
        records=tuple(proposals.records), response=response, sentence="; ".join(proposals.told), atomic=False
    )


class _Proposals:
    def __init__(self, image: ClusterImage, proposer: BrokerId, config: BrokerConfig) -> None:
        self._image = image
        self._proposer = proposer
        self._electorate = Electorate(image, config)
        # If a partition is named twice, the second change applies to the result of the first.
        self._changed: dict[tuple[bytes, int], PartitionImage] = {}
        self.records: list[PartitionChangeRecord] = []
        self.told: list[str] = []

    def topic(self, wanted: AlterPartitionRequestTopicData) -> AlterPartitionResponseTopicData:
        topic = self._image.topics_by_id.get(wanted.topic_id)
        partitions = [
            _refused(partition, ErrorCode.UNKNOWN_TOPIC_ID) if topic is None else self._partition(topic, partition)
            for partition in wanted.partitions
        ]
        return AlterPartitionResponseTopicData(topic_id=wanted.topic_id, partitions=partitions)

    def _partition(
        self, topic: TopicImage, wanted: AlterPartitionRequestPartitionData
    ) -> AlterPartitionResponsePartitionData:
        index = wanted.partition_index
        if not 0 <= index < len(topic.partitions):
            return _refused(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition = self._changed.get((topic.topic_id, index), topic.partitions[index])
        try:
            self._check(partition, wanted)
        except KafkaError as refused:
            return _refused(wanted, refused.code)
        record = self._change(topic, partition, wanted)
        if record is not None:
            following = changed_partition(partition, record)
            self._changed[topic.topic_id, index] = following
            self.records.append(record)
            self.told.append(
                f"{topic.name}-{index}: the ISR is now {_names(following.isr)}, proposed by {self._proposer}"
            )
            if record.leader not in (LEADER_UNCHANGED, self._proposer):
                # The proposal completed a reassignment that moved the leadership away from the proposer.
                return _refused(wanted, ErrorCode.NEW_LEADER_ELECTED)
            partition = following
        return AlterPartitionResponsePartitionData(
            partition_index=index,
            leader_id=partition.leader,
            leader_epoch=partition.leader_epoch,
            isr=list(partition.isr),
            leader_recovery_state=partition.recovery,
            partition_epoch=partition.partition_epoch,
        )

    def _check(self, partition: PartitionImage, wanted: AlterPartitionRequestPartitionData) -> None:
        if wanted.leader_epoch > partition.leader_epoch or wanted.partition_epoch > partition.partition_epoch:
            # The leader has newer metadata than this controller: another controller is active.
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        if not safeguards.is_current_leader_epoch(wanted.leader_epoch, partition.leader_epoch):
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        if self._proposer != partition.leader:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if not safeguards.is_current_partition_epoch(wanted.partition_epoch, partition.partition_epoch):
            raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION)
        self._check_isr(partition, wanted)

    def _check_isr(self, partition: PartitionImage, wanted: AlterPartitionRequestPartitionData) -> None:
        members = _members(wanted)
        isr = [member.broker_id for member in members]
        distinct = len(dict.fromkeys(isr)) == len(isr)
        if not distinct or partition.leader not in isr or any(b not in partition.replicas for b in isr):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if wanted.leader_recovery_state not in (Recovery.RECOVERED, Recovery.RECOVERING):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if wanted.leader_recovery_state == Recovery.RECOVERING and (
            len(isr) > 1 or partition.recovery == Recovery.RECOVERED
        ):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if not all(self._is_eligible(member) for member in members):
            raise KafkaError(ErrorCode.INELIGIBLE_REPLICA)
        # The broker has not reported this replica's log online yet: the controller would not elect it, even as the only
        # in-sync replica.
        if any(partition.is_lost(BrokerId(broker_id)) for broker_id in isr if broker_id not in partition.isr):
            raise KafkaError(ErrorCode.INELIGIBLE_REPLICA)

    def _is_eligible(self, member: BrokerState) -> bool:
        """KIP-841, KIP-903: the broker may have restarted with less data since the leader saw it catch up."""
        broker = self._image.brokers.get(member.broker_id)
        if broker is None or not safeguards.may_join_isr(broker.active):
            return False
        return member.broker_epoch == _ANY_EPOCH or safeguards.is_same_incarnation(
            member.broker_epoch, broker.broker_epoch
        )

    def _change(
        self, topic: TopicImage, partition: PartitionImage, wanted: AlterPartitionRequestPartitionData
    ) -> PartitionChangeRecord | None:
        change = PartitionChange(topic, partition, self._electorate)
        if self._electorate.allows_unclean(topic):
            change.election = Election.UNCLEAN
        change.isr = [BrokerId(member.broker_id) for member in _members(wanted)]
        change.recovery = wanted.leader_recovery_state
        return change.record()


def _members(wanted: AlterPartitionRequestPartitionData) -> list[BrokerState]:
    """Before version 3 the leader does not send broker epochs."""
    return wanted.new_isr_with_epochs or [BrokerState(broker_id=broker_id) for broker_id in wanted.new_isr]


def _refused(wanted: AlterPartitionRequestPartitionData, code: ErrorCode) -> AlterPartitionResponsePartitionData:
    return AlterPartitionResponsePartitionData(partition_index=wanted.partition_index, error_code=code)


def _names(brokers: tuple[BrokerId, ...]) -> str:
    return ", ".join(map(str, brokers))
