"""Clients that create and delete topics, delete records, and ask for producer ids."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p19_create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.messages.p20_delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from odradek.protocol.messages.p21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from odradek.protocol.messages.p22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.sim.history import Place, Violation
from odradek.sim.workloads.reading import EARLIEST, LATEST, list_offset
from odradek.sim.workloads.refusals import AskAgain, refuse
from odradek.sim.workloads.session import Session
from odradek.sim.workloads.worker import Errand, Worker

# How much rarer than other requests these are.
ADMIN_PAUSES = 4.0
CHURNING_MAX = 10
_CREATE_VERSION = 7
_DELETE_VERSION = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    name: str
    partitions: int
    replicas: int
    configs: dict[str, str]


async def create_topic(session: Session, wanted: NewTopic, timeout_s: float) -> bytes | None:
    """The topic's id; None when it was there already."""
    topic = CreatableTopic(
        name=wanted.name,
        num_partitions=wanted.partitions,
        replication_factor=wanted.replicas,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in wanted.configs.items()],
    )
    connection = await session.anyone()
    answer = await connection.ask(
        CreateTopicsRequest(topics=[topic], timeout_ms=5000), _CREATE_VERSION, CreateTopicsResponse, timeout_s
    )
    result = answer.topics[0]
    if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
        return None
    if result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR and wanted.replicas > 1:
        raise AskAgain("too few brokers are up at the moment")
    refuse("CreateTopics", result.error_code, f"{wanted.name}: {result.error_message}")
    return result.topic_id


class TopicSetter(Worker):
    """Creates the run's topics, whatever happens meanwhile."""

    def __init__(self, name: str, errand: Errand, topics: tuple[NewTopic, ...]) -> None:
        super().__init__(name, errand)
        self._topics = topics
        self.done: dict[str, None] = {}

    def finished(self) -> bool:
        return len(self.done) == len(self._topics)

    async def work(self, session: Session) -> None:
        for topic in self._topics:
            if topic.name not in self.done:
                await create_topic(session, topic, self.errand.request_timeout_s)
                self.done[topic.name] = None


class TopicChurn(Worker):
    """Creates and deletes topics of its own, and compares the topics that brokers list with the answers it got.

    In a cluster, a broker may not know a change yet; in the end all must.
    """

    def __init__(self, name: str, errand: Errand, replicas: int) -> None:
        super().__init__(name, errand)
        self._replicas = replicas
        self._made = 0
        # By name: the id it was created with. A topic whose request got no answer is in neither.
        self._existing: dict[str, bytes] = {}
        self._deleted: dict[str, bytes] = {}
        # A delete is under way: it may be there or not.
        self._doubtful: dict[str, None] = {}
        self._compared_at_last = False

    def finished(self) -> bool:
        return self._compared_at_last

    async def work(self, session: Session) -> None:
        while not self.errand.closing.is_set():
            step = self.rng.choice((self._create, self._create, self._delete, self.compare))
            await (self._delete if len(self._existing) >= CHURNING_MAX else step)(session)
            await self.errand.pause(ADMIN_PAUSES)
        await self.compare(session)
        self._compared_at_last = True

    async def _create(self, session: Session) -> None:
        self._made += 1
        name = f"{self.name}-{self._made}"
        wanted = NewTopic(name=name, partitions=self.rng.randrange(3) + 1, replicas=self._replicas, configs={})
        topic_id = await create_topic(session, wanted, self.errand.request_timeout_s)
        if topic_id is None and self.errand.nodes == 1:
            raise Violation(f"M1 {name} exists before it was created")
        if topic_id is None:
            # The broker retried at a second controller; the first had created it before it was gone.
            self._doubtful[name] = None
        else:
            self._existing[name] = topic_id

    async def _delete(self, session: Session) -> None:
        if not self._existing:
            return
        name = self.rng.choice(list(self._existing))
        topic_id = self._existing.pop(name)
        self._doubtful[name] = None
        connection = await session.anyone()
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=5000)
        answer = await connection.ask(request, _DELETE_VERSION, DeleteTopicsResponse, self.errand.request_timeout_s)
        refuse(self.name, answer.responses[0].error_code, f"the deletion of {name}")
        self._doubtful.pop(name)
        self._deleted[name] = topic_id

    async def compare(self, session: Session) -> None:
        listed = {topic.name: topic.topic_id for topic in (await session.describe(None)).topics}
        for name, topic_id in self._existing.items():
            if listed.get(name) != topic_id:
                self._differs(f"M1 topic {name} was created and is not listed, or under another id")
        for name in self._deleted:
            if name in listed:
                self._differs(f"M2 topic {name} was deleted and is listed again")

    def _differs(self, what: str) -> None:
        if self.errand.nodes == 1:
            raise Violation(what)
        raise AskAgain(what)


class RecordDeleter(Worker):
    """Moves the beginning of partitions forward, and sees that it never moves back."""

    def __init__(self, name: str, errand: Errand, places: tuple[Place, ...]) -> None:
        super().__init__(name, errand)
        self._places = places
        # The log start that was answered, and the crash count then: a crash may undo the last deletions.
        self._low: dict[Place, tuple[int, int]] = {}

    async def work(self, session: Session) -> None:
        while not self.finished():
            place = self.rng.choice(self._places)
            earliest = await list_offset(session, place, EARLIEST, self.errand.request_timeout_s)
            latest = await list_offset(session, place, LATEST, self.errand.request_timeout_s)
            if not earliest <= latest:
                raise Violation(f"L5 {place} begins at {earliest} and ends at {latest}")
            low, crashes = self._low.get(place, (0, 0))
            if earliest < low and crashes == self.errand.crashes():
                raise Violation(f"L6 {place} begins at {earliest} again, everything below {low} was deleted")
            if latest > earliest:
                await self._delete_below(session, place, self.rng.randrange(earliest, latest + 1))
            await self.errand.pause(ADMIN_PAUSES)

    async def _delete_below(self, session: Session, place: Place, offset: int) -> None:
        name, partition = place
        crashes = self.errand.crashes()
        self.history.deletes_below(place, offset)
        asked = DeleteRecordsTopic(
            name=name, partitions=[DeleteRecordsPartition(partition_index=partition, offset=offset)]
        )
        leader = await session.leader(place)
        answer = await leader.ask(
            DeleteRecordsRequest(topics=[asked], timeout_ms=5000),
            2,
            DeleteRecordsResponse,
            self.errand.request_timeout_s,
        )
        result = answer.topics[0].partitions[0]
        if result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise AskAgain
        refuse(self.name, result.error_code, f"the deletion of {place} below {offset}")
        if result.low_watermark < offset:
            raise Violation(f"L6 {place} begins at {result.low_watermark} after a deletion below {offset}")
        self._low[place] = (result.low_watermark, crashes)


class IdCollector(Worker):
    """Asks for producer ids and throws them away: none may ever come twice."""

    async def work(self, session: Session) -> None:
        connection = await session.anyone()
        while not self.finished():
            answer = await connection.ask(
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000),
                4,
                InitProducerIdResponse,
                self.errand.request_timeout_s,
            )
            refuse(self.name, answer.error_code, "a producer id")
            self.history.given_producer_id(answer.producer_id, self.name)
            await self.errand.pause(ADMIN_PAUSES)
