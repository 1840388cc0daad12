"""What operators do to a cluster in use: replicas move, preferred leaders are elected, configs change."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from odradek.protocol.messages.p43_elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from odradek.protocol.messages.p44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.messages.p45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.p46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from odradek.sim.history import Place
from odradek.sim.workloads.admin import ADMIN_PAUSES
from odradek.sim.workloads.refusals import AskAgain, refuse
from odradek.sim.workloads.session import Session
from odradek.sim.workloads.worker import Errand, Worker

_TOPIC = 2
_SET = 0
_PREFERRED = 0
# No move to cancel, or a move would leave no in-sync replica, or it names a broker that never registered.
_NOT_NOW = (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, ErrorCode.INVALID_REPLICA_ASSIGNMENT)
_NOBODY_BETTER = (ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)


class Mover(Worker):
    """Moves partitions between brokers, cancels some moves, and in the end waits until all are complete: V6."""

    def __init__(
        self, name: str, errand: Errand, places: tuple[Place, ...], brokers: tuple[int, ...], replicas: int
    ) -> None:
        super().__init__(name, errand)
        self._places = places
        self._brokers = brokers
        self._replicas = replicas
        self._all_arrived = False

    def finished(self) -> bool:
        return self._all_arrived

    async def work(self, session: Session) -> None:
        while not self.errand.closing.is_set():
            target = self.rng.sample(self._brokers, self._replicas) if self.rng.random() < 0.8 else None
            await self._move(session, self.rng.choice(self._places), target)
            await self.errand.pause(ADMIN_PAUSES)
        connection = await session.anyone()
        moving = await connection.ask(
            ListPartitionReassignmentsRequest(),
            0,
            ListPartitionReassignmentsResponse,
            self.errand.request_timeout_s,
        )
        refuse(self.name, moving.error_code, "the list of moves")
        if moving.topics:
            raise AskAgain(f"V6 {moving.topics[0].name} is still moving")
        self._all_arrived = True

    async def _move(self, session: Session, place: Place, target: list[int] | None) -> None:
        name, partition = place
        asked = ReassignableTopic(
            name=name, partitions=[ReassignablePartition(partition_index=partition, replicas=target)]
        )
        connection = await session.anyone()
        answer = await connection.ask(
            AlterPartitionReassignmentsRequest(topics=[asked], timeout_ms=5000),
            0,
            AlterPartitionReassignmentsResponse,
            self.errand.request_timeout_s,
        )
        refuse(self.name, answer.error_code, "a move")
        code = answer.responses[0].partitions[0].error_code
        self.errand.note(f"{name}-{partition} to {target}: {ErrorCode(code).name}")
        if code not in _NOT_NOW:
            refuse(self.name, code, f"the move of {place} to {target}")


class Elector(Worker):
    """Has preferred leaders elected."""

    async def work(self, session: Session) -> None:
        connection = await session.anyone()
        while not self.finished():
            request = ElectLeadersRequest(election_type=_PREFERRED, topic_partitions=None, timeout_ms=5000)
            answer = await connection.ask(request, 2, ElectLeadersResponse, self.errand.request_timeout_s)
            refuse(self.name, answer.error_code, "an election")
            for topic in answer.replica_election_results:
                for partition in topic.partition_result:
                    if partition.error_code not in _NOBODY_BETTER:
                        refuse(self.name, partition.error_code, f"an election for {topic.topic}")
            await self.errand.pause(ADMIN_PAUSES)


class Tuner(Worker):
    """Changes configs of topics in use; in the end, every broker must know what was last acknowledged (M3)."""

    def __init__(
        self, name: str, errand: Errand, topics: tuple[str, ...], values: Mapping[str, tuple[str, ...]]
    ) -> None:
        super().__init__(name, errand)
        self._topics = topics
        self._values = values
        # By topic and config. A change that was never answered may still be executed at any time.
        self._acknowledged: dict[tuple[str, str], str] = {}
        self._in_doubt: dict[tuple[str, str], list[str]] = {}
        self._compared_at_last = False

    def finished(self) -> bool:
        return self._compared_at_last

    async def work(self, session: Session) -> None:
        while not self.errand.closing.is_set():
            name = self.rng.choice(list(self._values))
            await self._alter(session, self.rng.choice(self._topics), name, self.rng.choice(self._values[name]))
            await self.errand.pause(ADMIN_PAUSES)
        for topic in self._topics:
            await self._compare(session, topic)
        self._compared_at_last = True

    async def _alter(self, session: Session, topic: str, name: str, value: str) -> None:
        doubts = self._in_doubt.setdefault((topic, name), [])
        doubts.append(value)
        config = AlterableConfig(name=name, config_operation=_SET, value=value)
        request = IncrementalAlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=_TOPIC, resource_name=topic, configs=[config])]
        )
        connection = await session.anyone()
        answer = await connection.ask(request, 1, IncrementalAlterConfigsResponse, self.errand.request_timeout_s)
        result = answer.responses[0]
        refuse(self.name, result.error_code, f"{name}={value} of {topic}: {result.error_message}")
        doubts.remove(value)
        self._acknowledged[topic, name] = value

    async def _compare(self, session: Session, topic: str) -> None:
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=_TOPIC, resource_name=topic, configuration_keys=list(self._values)
                )
            ]
        )
        connection = await session.anyone()
        answer = await connection.ask(request, 4, DescribeConfigsResponse, self.errand.request_timeout_s)
        refuse(self.name, answer.results[0].error_code, f"the configs of {topic}")
        for config in answer.results[0].configs:
            wanted = self._acknowledged.get((topic, config.name), config.value)
            if config.value != wanted and config.value not in self._in_doubt.get((topic, config.name), ()):
                raise AskAgain(f"M3 {config.name} of {topic} is {config.value}, not {wanted}")
