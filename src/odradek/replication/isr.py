"""Changes of the in-sync replicas: the leader proposes, the controller decides (AlterPartition, KIP-497)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from odradek.base.errors import ErrorCode
from odradek.base.ids import BrokerId, LeaderEpoch, TopicId
from odradek.metadata.image import BrokerRegistration
from odradek.replication import safeguards

if TYPE_CHECKING:
    from odradek.replication.partition import Partition


class IsrMember(NamedTuple):
    broker_id: BrokerId
    # With which it last fetched, -1 when it has not fetched yet.
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposal:
    """The controller applies it only if the partition epoch is still `partition_epoch`."""

    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch
    partition_epoch: int
    isr: tuple[IsrMember, ...]
    # Whether it adds replicas; otherwise it removes some.
    grows: bool

    @property
    def members(self) -> tuple[BrokerId, ...]:
        return tuple(member.broker_id for member in self.isr)


# The controller knows this partition epoch and has refused: the change is not applied, now or later.
NOT_APPLIED = (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA)
# The leader's state is out of date. Its proposal may have been applied: until the image says so, both ISRs count.
OUT_OF_DATE = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.NEW_LEADER_ELECTED,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)

Propose = Callable[["Partition", IsrProposal], None]


def nobody_to_ask(partition: Partition, proposal: IsrProposal) -> None:
    """For brokers whose partitions have no followers: nothing is ever proposed."""


class LiveBrokers:
    """The live brokers according to the latest cluster image. Shared by all partitions of a broker."""

    __slots__ = ("registered",)

    def __init__(self) -> None:
        self.registered: Mapping[int, BrokerRegistration] = {}

    def may_join_isr(self, broker_id: int, broker_epoch: int) -> bool:
        broker = self.registered.get(broker_id)
        return (
            broker is not None and broker.active and safeguards.is_same_incarnation(broker_epoch, broker.broker_epoch)
        )

    def is_alive(self, broker_id: int) -> bool:
        broker = self.registered.get(broker_id)
        return broker is not None and not broker.fenced

    def is_outdated(self, broker_id: int, broker_epoch: int) -> bool:
        """True for a delayed fetch from an older incarnation than the registered one."""
        broker = self.registered.get(broker_id)
        return broker is not None and 0 <= broker_epoch < broker.broker_epoch

    def rack(self, broker_id: int) -> str | None:
        """The rack of a broker that is alive, or None."""
        broker = self.registered.get(broker_id)
        return None if broker is None or broker.fenced else broker.rack

    def broker_epoch(self, broker_id: int) -> int:
        broker = self.registered.get(broker_id)
        return -1 if broker is None else broker.broker_epoch
