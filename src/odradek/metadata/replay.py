"""Applies one commit of metadata records to an image. Returns the new image and the changes. Pure.

A record that contradicts the image, such as a partition of an unknown topic, means that this node's state differs from
the log. It stops the node and is not skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as with_fields
from typing import Any

from odradek.base.ids import BrokerId, DirectoryId, LeaderEpoch, Offset, TopicId
from odradek.base.invariants import InvariantBroken, invariant
from odradek.metadata.image import (
    TOPIC_RESOURCE,
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
    ControllerRegistration,
    ImageDelta,
    PartitionImage,
    TopicChange,
    TopicImage,
    collision_key,
)
from odradek.metadata.registrations import read_features, read_listeners
from odradek.protocol import metadata_records as kinds
from odradek.protocol.schema import Message

LEADER_UNCHANGED = -2


def replay(
    image: ClusterImage, records: Sequence[Message], offset: Offset, epoch: LeaderEpoch
) -> tuple[ClusterImage, ImageDelta]:
    commit = _Commit(image)
    for record in records:
        commit.apply(record)
    return commit.finish(offset, epoch)


class _TopicDraft:
    """A topic that this commit changes: collects its partitions and freezes them once."""

    __slots__ = ("before", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: TopicId, before: TopicImage | None) -> None:
        self.name = name
        self.topic_id = topic_id
        self.before = before
        self.partitions = {} if before is None else {p.index: p for p in before.partitions}

    def freeze(self) -> TopicImage:
        partitions = tuple(self.partitions[index] for index in sorted(self.partitions))
        invariant(
            not partitions or partitions[-1].index == len(partitions) - 1,
            f"the partitions of {self.name} are not numbered from 0 without gaps",
        )
        return TopicImage(name=self.name, topic_id=self.topic_id, partitions=partitions)


class _Commit:
    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._drafts: dict[bytes, _TopicDraft] = {}
        self._names: dict[str, TopicId | None] = {}
        self._deleted: dict[bytes, TopicImage] = {}
        self._configs: dict[ConfigResource, dict[str, str]] = {}
        self._brokers = dict(image.brokers)
        self._controllers = dict(image.controllers)
        self._changed_brokers: dict[BrokerId, None] = {}
        self._features = dict(image.features)
        self._next_producer_id = image.next_producer_id
        self._transaction = None if image.transaction is None else list(image.transaction)

    def apply(self, record: Message) -> None:
        transaction = self._transaction
        if isinstance(record, kinds.BeginTransactionRecord):
            invariant(transaction is None, "a metadata transaction began inside another")
            self._transaction = []
        elif isinstance(record, kinds.EndTransactionRecord):
            invariant(transaction is not None, "a metadata transaction ended that never began")
            self._transaction = None
            for held in transaction or ():
                self._apply_now(held)
        elif isinstance(record, kinds.AbortTransactionRecord):
            self._transaction = None
        elif transaction is not None:
            transaction.append(record)
        else:
            self._apply_now(record)

    def _apply_now(self, record: Message) -> None:
        apply = _APPLY.get(type(record))
        if apply is None:
            raise InvariantBroken(f"{type(record).__name__} is not supported by this version of Odradek")
        apply(self, record)

    def finish(self, offset: Offset, epoch: LeaderEpoch) -> tuple[ClusterImage, ImageDelta]:
        image = self._image
        created: list[TopicImage] = []
        changed: list[TopicChange] = []
        by_id: dict[bytes, TopicImage | None] = dict.fromkeys(self._deleted)
        for topic_id, draft in self._drafts.items():
            after = by_id[topic_id] = draft.freeze()
            if draft.before is None:
                created.append(after)
            else:
                changed.append(TopicChange(draft.before, after))
        by_name = {name: None if topic_id is None else by_id[topic_id] for name, topic_id in self._names.items()}
        following = ClusterImage(
            cluster_id=image.cluster_id,
            offset=offset,
            epoch=epoch,
            brokers=self._brokers,
            controllers=self._controllers,
            topics=image.topics.changed(by_name),
            topics_by_id=image.topics_by_id.changed(by_id),
            colliding_names=image.colliding_names.changed(_colliding(by_name)),
            configs=image.configs.changed({resource: values or None for resource, values in self._configs.items()}),
            features=self._features,
            next_producer_id=self._next_producer_id,
            transaction=None if self._transaction is None else tuple(self._transaction),
        )
        delta = ImageDelta(
            deleted=tuple(self._deleted.values()),
            created=tuple(created),
            changed=tuple(changed),
            configs=tuple(self._configs),
            brokers=tuple(self._changed_brokers),
        )
        return following, delta

    # Topics

    def topic(self, record: kinds.TopicRecord) -> None:
        topic_id = TopicId(record.topic_id)
        invariant(self._topic_id_of(record.name) is None, f"topic {record.name} was created twice")
        self._drafts[topic_id] = _TopicDraft(record.name, topic_id, None)
        self._names[record.name] = topic_id

    def _topic_id_of(self, name: str) -> TopicId | None:
        if name in self._names:
            return self._names[name]
        topic = self._image.topics.get(name)
        return None if topic is None else topic.topic_id

    def _draft(self, topic_id: bytes) -> _TopicDraft:
        draft = self._drafts.get(topic_id)
        if draft is None:
            topic = self._image.topics_by_id.get(topic_id)
            if topic is None or topic_id in self._deleted:
                raise InvariantBroken(f"no topic has the id {topic_id.hex()}")
            draft = self._drafts[topic_id] = _TopicDraft(topic.name, topic.topic_id, topic)
            self._names[draft.name] = draft.topic_id
        return draft

    def partition(self, record: kinds.PartitionRecord) -> None:
        self._draft(record.topic_id).partitions[record.partition_id] = PartitionImage(
            index=record.partition_id,
            replicas=_brokers(record.replicas),
            isr=_brokers(record.isr),
            leader=BrokerId(record.leader),
            leader_epoch=LeaderEpoch(record.leader_epoch),
            partition_epoch=record.partition_epoch,
            directories=_directories(record.directories),
            elr=_brokers(record.eligible_leader_replicas or ()),
            last_known_elr=_brokers(record.last_known_elr or ()),
            adding=_brokers(record.adding_replicas),
            removing=_brokers(record.removing_replicas),
            recovery=record.leader_recovery_state,
        )

    def partition_change(self, record: kinds.PartitionChangeRecord) -> None:
        draft = self._draft(record.topic_id)
        was = draft.partitions.get(record.partition_id)
        if was is None:
            raise InvariantBroken(f"topic {draft.name} has no partition {record.partition_id}")
        draft.partitions[record.partition_id] = changed_partition(was, record)

    def clear_elr(self, record: kinds.ClearElrRecord) -> None:
        """Clears the ELR of one topic, or of all topics if none is named."""
        names = [record.topic_name] if record.topic_name else [*self._image.topics, *self._names]
        for topic_id in dict.fromkeys(map(self._topic_id_of, names)):
            if topic_id is not None:
                for partition in list(self._draft(topic_id).partitions.values()):
                    if partition.elr or partition.last_known_elr:
                        self.partition_change(_without_elr(topic_id, partition.index))

    def remove_topic(self, record: kinds.RemoveTopicRecord) -> None:
        draft = self._draft(record.topic_id)
        del self._drafts[record.topic_id]
        self._names[draft.name] = None
        if draft.before is not None:
            self._deleted[record.topic_id] = draft.before
        resource = ConfigResource(TOPIC_RESOURCE, draft.name)
        if resource in self._configs or resource in self._image.configs:
            self._configs[resource] = {}

    # Configurations, features, producer ids

    def config(self, record: kinds.ConfigRecord) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        values = self._configs.get(resource)
        if values is None:
            values = self._configs[resource] = dict(self._image.configs.get(resource, {}))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value

    def feature_level(self, record: kinds.FeatureLevelRecord) -> None:
        if record.feature_level == 0:
            self._features.pop(record.name, None)
        else:
            self._features[record.name] = record.feature_level

    def producer_ids(self, record: kinds.ProducerIdsRecord) -> None:
        invariant(
            record.next_producer_id > self._next_producer_id,
            f"next producer id {record.next_producer_id} does not come after {self._next_producer_id}",
        )
        self._next_producer_id = record.next_producer_id

    # Brokers and controllers

    def register_broker(self, record: kinds.RegisterBrokerRecord) -> None:
        broker_id = BrokerId(record.broker_id)
        self._set_broker(
            BrokerRegistration(
                broker_id=broker_id,
                broker_epoch=record.broker_epoch,
                incarnation_id=record.incarnation_id,
                listeners=read_listeners(record.end_points),
                features=read_features(record.features),
                rack=record.rack,
                fenced=record.fenced,
                in_controlled_shutdown=record.in_controlled_shutdown,
                directories=_directories(record.log_dirs),
            )
        )

    def registration_change(self, record: kinds.BrokerRegistrationChangeRecord) -> None:
        changes: dict[str, Any] = {}
        if record.fenced:
            changes["fenced"] = record.fenced > 0
        if record.in_controlled_shutdown:
            changes["in_controlled_shutdown"] = True
        if record.log_dirs:
            changes["directories"] = _directories(record.log_dirs)
        self._set_broker(with_fields(self._registered(record.broker_id, record.broker_epoch), **changes))

    def fence(self, record: kinds.FenceBrokerRecord) -> None:
        self._set_broker(with_fields(self._registered(record.id, record.epoch), fenced=True))

    def unfence(self, record: kinds.UnfenceBrokerRecord) -> None:
        self._set_broker(with_fields(self._registered(record.id, record.epoch), fenced=False))

    def unregister_broker(self, record: kinds.UnregisterBrokerRecord) -> None:
        broker = self._registered(record.broker_id, record.broker_epoch)
        del self._brokers[broker.broker_id]
        self._changed_brokers[broker.broker_id] = None

    def _registered(self, broker_id: int, broker_epoch: int) -> BrokerRegistration:
        broker = self._brokers.get(broker_id)
        if broker is None or broker.broker_epoch != broker_epoch:
            raise InvariantBroken(f"broker {broker_id} is not registered with epoch {broker_epoch}")
        return broker

    def _set_broker(self, broker: BrokerRegistration) -> None:
        self._brokers[broker.broker_id] = broker
        self._changed_brokers[broker.broker_id] = None

    def register_controller(self, record: kinds.RegisterControllerRecord) -> None:
        self._controllers[record.controller_id] = ControllerRegistration(
            controller_id=BrokerId(record.controller_id),
            incarnation_id=record.incarnation_id,
            listeners=read_listeners(record.end_points),
            features=read_features(record.features),
        )

    def no_op(self, _: Message) -> None: ...


def changed_partition(was: PartitionImage, record: kinds.PartitionChangeRecord) -> PartitionImage:
    led_anew = record.leader != LEADER_UNCHANGED
    return PartitionImage(
        index=was.index,
        replicas=was.replicas if record.replicas is None else _brokers(record.replicas),
        isr=was.isr if record.isr is None else _brokers(record.isr),
        leader=BrokerId(record.leader) if led_anew else was.leader,
        leader_epoch=LeaderEpoch(was.leader_epoch + led_anew),
        partition_epoch=was.partition_epoch + 1,
        directories=was.directories if record.directories is None else _directories(record.directories),
        elr=was.elr if record.eligible_leader_replicas is None else _brokers(record.eligible_leader_replicas),
        last_known_elr=was.last_known_elr if record.last_known_elr is None else _brokers(record.last_known_elr),
        adding=was.adding if record.adding_replicas is None else _brokers(record.adding_replicas),
        removing=was.removing if record.removing_replicas is None else _brokers(record.removing_replicas),
        recovery=was.recovery if record.leader_recovery_state < 0 else record.leader_recovery_state,
    )


def _colliding(by_name: Mapping[str, TopicImage | None]) -> dict[str, str | None]:
    """An existing topic overrides a deleted one with the same key."""
    names = [name for name in by_name if "." in name or "_" in name]
    gone: dict[str, str | None] = {collision_key(name): None for name in names}
    return gone | {collision_key(name): name for name in names if by_name[name] is not None}


def _without_elr(topic_id: TopicId, index: int) -> kinds.PartitionChangeRecord:
    return kinds.PartitionChangeRecord(
        topic_id=topic_id, partition_id=index, eligible_leader_replicas=[], last_known_elr=[]
    )


def _brokers(ids: Sequence[int]) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, ids))


def _directories(ids: Sequence[bytes]) -> tuple[DirectoryId, ...]:
    return tuple(map(DirectoryId, ids))


_APPLY: dict[type[Message], Callable[[_Commit, Any], None]] = {
    kinds.TopicRecord: _Commit.topic,
    kinds.PartitionRecord: _Commit.partition,
    kinds.PartitionChangeRecord: _Commit.partition_change,
    kinds.RemoveTopicRecord: _Commit.remove_topic,
    kinds.ClearElrRecord: _Commit.clear_elr,
    kinds.ConfigRecord: _Commit.config,
    kinds.FeatureLevelRecord: _Commit.feature_level,
    kinds.ProducerIdsRecord: _Commit.producer_ids,
    kinds.RegisterBrokerRecord: _Commit.register_broker,
    kinds.BrokerRegistrationChangeRecord: _Commit.registration_change,
    kinds.FenceBrokerRecord: _Commit.fence,
    kinds.UnfenceBrokerRecord: _Commit.unfence,
    kinds.UnregisterBrokerRecord: _Commit.unregister_broker,
    kinds.RegisterControllerRecord: _Commit.register_controller,
    kinds.NoOpRecord: _Commit.no_op,
}
