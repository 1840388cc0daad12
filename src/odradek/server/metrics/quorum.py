"""The metadata quorum as this node sees it, and what its controller knows of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from odradek import __version__
from odradek.base.ids import NO_BROKER, ZERO_UUID, uuid_text
from odradek.base.ports import Clock
from odradek.controller.elections import elected_outside_isr
from odradek.metadata.features import METADATA_VERSION, SUPPORTED_FEATURES
from odradek.metadata.image import BrokerRegistration, ClusterImage, ImageDelta
from odradek.monitor.catalogue import broker
from odradek.monitor.catalogue import quorum as catalogue
from odradek.monitor.metric import Metric
from odradek.monitor.registry import Labels, Reading, Registry
from odradek.quorum.roles import Role
from odradek.server.controller.active_controller import ActiveController
from odradek.server.quorum.metadata_quorum import MetadataQuorum

OBSERVER = "observer"
MS_OF_NS = 1e-6
FENCED, CONTROLLED_SHUTDOWN, ACTIVE = 10, 20, 30
TOPICS_PER_READING = 10


def measure_quorum(registry: Registry, quorum: MetadataQuorum, clock: Clock) -> None:
    core, feed, times, now_ns = quorum.core, quorum.feed, quorum.times, clock.monotonic_ns
    for metric, read in (
        (catalogue.CURRENT_LEADER, lambda: core.leader_id),
        (catalogue.CURRENT_EPOCH, lambda: core.leader_epoch),
        (catalogue.CURRENT_VOTE, lambda: NO_BROKER if core.election.voted is None else core.election.voted.voter_id),
        (catalogue.CURRENT_VOTE_DIRECTORY, lambda: _voted_directory(quorum)),
        (catalogue.CURRENT_STATE, lambda: _state(quorum)),
        (catalogue.HIGH_WATERMARK, lambda: core.high_watermark),
        (catalogue.LOG_END_OFFSET, lambda: quorum.log.log_end_offset),
        (catalogue.LOG_END_EPOCH, lambda: quorum.log.leader_epochs.latest),
        (catalogue.VOTERS, lambda: len(quorum.voters.keys)),
        (catalogue.OBSERVERS, lambda: sum(each.key not in quorum.voters.keys for each in core.progress())),
        (catalogue.UNKNOWN_VOTERS, lambda: _unknown_voters(quorum)),
        (catalogue.UNCOMMITTED_VOTERS, lambda: int(core.voters_offset >= max(core.high_watermark, 0))),
        (catalogue.COMMIT_LATENCY_AVG, lambda: times.commits.average(now_ns()) * MS_OF_NS),
        (catalogue.COMMIT_LATENCY_MAX, lambda: times.commits.maximum(now_ns()) * MS_OF_NS),
        (catalogue.ELECTION_LATENCY_AVG, lambda: times.elections.average(now_ns()) * MS_OF_NS),
        (catalogue.ELECTION_LATENCY_MAX, lambda: times.elections.maximum(now_ns()) * MS_OF_NS),
        (catalogue.APPLIED_OFFSET, lambda: feed.image.offset),
        (catalogue.LOAD_ERRORS, lambda: int(quorum.has_failed)),
        (catalogue.APPLY_ERRORS, lambda: int(quorum.has_failed)),
        (catalogue.UNAPPLIED, lambda: max(0, core.high_watermark - 1 - feed.image.offset)),
        (catalogue.CONTROLLER_ID, lambda: core.leader_id),
        (catalogue.METADATA_VERSION, lambda: feed.image.features.get(METADATA_VERSION, 0)),
        (catalogue.SNAPSHOTS_LOADED, lambda: times.loaded_snapshots),
        (catalogue.SNAPSHOT_BYTES, lambda: times.snapshot_bytes),
        (catalogue.SNAPSHOT_AGE, lambda: clock.monotonic_ms() - times.snapshot_ms),
    ):
        registry.gauge(metric, read)
    own_id, started_ms = str(quorum.own_id), clock.wall_ms()
    registry.gauge(broker.VERSION, lambda: __version__, own_id)
    registry.gauge(broker.STARTED, lambda: started_ms, own_id)
    registry.gauge(broker.CLUSTER_ID, lambda: feed.image.cluster_id)
    registry.rate(catalogue.APPEND_RATE, lambda: times.appended_records)
    registry.rate(catalogue.FETCH_RATE, lambda: times.fetched_records)
    registry.gauges(catalogue.FEATURE_LEVEL, lambda: _levels(feed.image))
    supported = [((name.replace(".", "-"),), levels) for name, levels in SUPPORTED_FEATURES.items()]
    registry.gauges(catalogue.FEATURE_MIN, lambda: ((labels, lowest) for labels, (lowest, _) in supported))
    registry.gauges(catalogue.FEATURE_MAX, lambda: ((labels, highest) for labels, (_, highest) in supported))


def _state(quorum: MetadataQuorum) -> str:
    role = quorum.core.role
    return OBSERVER if role is Role.FOLLOWER and not quorum.core.is_voter else role.value


def _voted_directory(quorum: MetadataQuorum) -> str:
    voted = quorum.core.election.voted
    return uuid_text(ZERO_UUID if voted is None else voted.directory_id)


def _unknown_voters(quorum: MetadataQuorum) -> int:
    others = [key.voter_id for key in quorum.voters.keys if key.voter_id != quorum.own_id]
    return sum(quorum.others.endpoint_of(voter_id) is None for voter_id in others)


def _levels(image: ClusterImage) -> Iterator[tuple[Labels, int]]:
    for name, level in image.features.items():
        first, *others = name.split(".")
        yield (first + "".join(word.capitalize() for word in others),), level


class ControllerMetrics:
    """The metrics of a node with the controller role."""

    def __init__(self, registry: Registry, quorum: MetadataQuorum, controller: ActiveController, clock: Clock) -> None:
        self._quorum = quorum
        self._controller = controller
        self._clock = clock
        self._unclean = registry.counter(catalogue.UNCLEAN_ELECTIONS)
        self._from_elr = registry.counter(catalogue.ELR_ELECTIONS)
        self._decisions = registry.distribution(catalogue.DECISION_TIME)
        feed, heartbeats = quorum.feed, controller.heartbeats
        readers: tuple[tuple[Metric, Callable[[], int]], ...] = (
            (catalogue.ACTIVE_CONTROLLERS, lambda: int(controller.is_active)),
            (catalogue.TOPICS, lambda: len(feed.image.topics)),
            (catalogue.METADATA_ERRORS, lambda: int(quorum.has_failed)),
            (catalogue.CONTROLLER_APPLIED, lambda: feed.image.offset),
            (catalogue.CONTROLLER_COMMITTED, lambda: quorum.core.high_watermark - 1),
            (catalogue.CONTROLLER_CHANGES, lambda: quorum.times.leader_changes),
            (catalogue.TIMED_OUT_HEARTBEATS, lambda: heartbeats.timed_out),
            (catalogue.DECISIONS, lambda: self._decisions.count),
        )
        for metric, read in readers:
            registry.gauge(metric, read)
        registry.source(self._brokers)
        registry.source(self._partitions)
        feed.subscribe(self._committed)
        controller.on_decided = self._decisions.observe

    def _brokers(self) -> Iterator[Reading]:
        image, now_ms = self._quorum.feed.image, self._clock.monotonic_ms()
        brokers = list(image.brokers.values())
        yield Reading(catalogue.ACTIVE_BROKERS, (), sum(not each.fenced for each in brokers))
        yield Reading(catalogue.FENCED_BROKERS, (), sum(each.fenced for each in brokers))
        yield Reading(catalogue.STOPPING_BROKERS, (), sum(each.in_controlled_shutdown for each in brokers))
        for each in brokers:
            labels = (str(each.broker_id),)
            yield Reading(catalogue.REGISTRATION_STATE, labels, _registration_state(each))
            if self._controller.is_active:
                silent_ms = self._controller.heartbeats.silent_ms(each.broker_id, now_ms)
                yield Reading(catalogue.HEARTBEAT_AGE, labels, silent_ms)

    def _partitions(self) -> Iterator[Reading | None]:
        """Counts partitions in the image at the start. The image never changes: a commit makes another one."""
        partitions = offline = imbalanced = 0
        for topic in self._quorum.feed.image.topics.values():
            for partition in topic.partitions:
                partitions += 1
                offline += partition.leader == NO_BROKER
                imbalanced += partition.leader != partition.replicas[0]
                if partitions % TOPICS_PER_READING == 0:
                    yield None
        yield Reading(catalogue.PARTITIONS, (), partitions)
        yield Reading(catalogue.OFFLINE_PARTITIONS, (), offline)
        yield Reading(catalogue.IMBALANCE, (), imbalanced)

    def _committed(self, _image: ClusterImage, delta: ImageDelta) -> None:
        for elected in elected_outside_isr(delta):
            (self._from_elr if elected.was_eligible else self._unclean).count += 1


def _registration_state(registered: BrokerRegistration) -> int:
    if registered.fenced:
        return FENCED
    return CONTROLLED_SHUTDOWN if registered.in_controlled_shutdown else ACTIVE
