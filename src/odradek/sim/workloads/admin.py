"""Topics that come and go, records that are deleted, producer ids that are only asked for."""

from __future__ import annotations

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p03_metadata import MetadataRequest, MetadataResponse
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
from odradek.sim.client import BrokerConnection
from odradek.sim.history import Place, Violation
from odradek.sim.workloads.reading import EARLIEST, LATEST, list_offset
from odradek.sim.workloads.worker import AskAgain, Errand, Worker, refuse

# How much rarer than other requests these are.
ADMIN_PAUSES = 4.0
_CREATE_VERSION = 7
_DELETE_VERSION = 5
_METADATA_VERSION = 12


async def create_topic(
    connection: BrokerConnection, name: str, partitions: int, configs: dict[str, str], timeout_s: float
) -> bytes | None:
    """The topic's id; None when it was there already."""
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    answer = await connection.ask(
        CreateTopicsRequest(topics=[topic], timeout_ms=5000), _CREATE_VERSION, CreateTopicsResponse, timeout_s
    )
    result = answer.topics[0]
    if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
        return None
    refuse("CreateTopics", result.error_code, f"{name}: {result.error_message}")
    return result.topic_id


class TopicSetter(Worker):
    """Creates the run's topics, whatever happens meanwhile."""

    def __init__(self, name: str, errand: Errand, topics: dict[str, tuple[int, dict[str, str]]]) -> None:
        super().__init__(name, errand)
        self._topics = topics
        self.done: dict[str, None] = {}

    def finished(self) -> bool:
        return len(self.done) == len(self._topics)

    async def work(self, connection: BrokerConnection) -> None:
        for name, (partitions, configs) in self._topics.items():
            if name not in self.done:
                await create_topic(connection, name, partitions, configs, self.errand.request_timeout_s)
                self.done[name] = None


class TopicChurn(Worker):
    """Creates and deletes topics of its own, and compares what the broker lists with what it was promised."""

    def __init__(self, name: str, errand: Errand) -> None:
        super().__init__(name, errand)
        self._made = 0
        # By name: the id it was created with. What nobody answered is in neither.
        self._existing: dict[str, bytes] = {}
        self._deleted: dict[str, bytes] = {}
        # A delete is under way: it may be there or not.
        self._doubtful: dict[str, None] = {}

    async def work(self, connection: BrokerConnection) -> None:
        while not self.finished():
            await self.rng.choice((self._create, self._create, self._delete, self.compare))(connection)
            await self.errand.pause(ADMIN_PAUSES)

    async def _create(self, connection: BrokerConnection) -> None:
        self._made += 1
        name = f"{self.name}-{self._made}"
        topic_id = await create_topic(connection, name, self.rng.randrange(3) + 1, {}, self.errand.request_timeout_s)
        if topic_id is None:
            raise Violation(f"M1 {name} exists before anybody made it")
        self._existing[name] = topic_id

    async def _delete(self, connection: BrokerConnection) -> None:
        if not self._existing:
            return
        name = self.rng.choice(list(self._existing))
        topic_id = self._existing.pop(name)
        self._doubtful[name] = None
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=5000)
        answer = await connection.ask(request, _DELETE_VERSION, DeleteTopicsResponse, self.errand.request_timeout_s)
        refuse(self.name, answer.responses[0].error_code, f"the deletion of {name}")
        self._doubtful.pop(name)
        self._deleted[name] = topic_id

    async def compare(self, connection: BrokerConnection) -> None:
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        answer = await connection.ask(request, _METADATA_VERSION, MetadataResponse, self.errand.request_timeout_s)
        listed = {topic.name: topic.topic_id for topic in answer.topics}
        for name, topic_id in self._existing.items():
            if listed.get(name) != topic_id:
                raise Violation(f"M1 topic {name} was created and is not listed, or under another id")
        for name in self._deleted:
            if name in listed:
                raise Violation(f"M2 topic {name} was deleted and is listed again")


class RecordDeleter(Worker):
    """Moves the beginning of partitions forward, and sees that it never moves back."""

    def __init__(self, name: str, errand: Errand, places: tuple[Place, ...]) -> None:
        super().__init__(name, errand)
        self._places = places
        # The beginning we were told of, and how many crashes ago: a crash may undo the last deletions.
        self._low: dict[Place, tuple[int, int]] = {}

    async def work(self, connection: BrokerConnection) -> None:
        while not self.finished():
            place = self.rng.choice(self._places)
            earliest = await list_offset(connection, place, EARLIEST, self.errand.request_timeout_s)
            latest = await list_offset(connection, place, LATEST, self.errand.request_timeout_s)
            if not earliest <= latest:
                raise Violation(f"L5 {place} begins at {earliest} and ends at {latest}")
            low, crashes = self._low.get(place, (0, 0))
            if earliest < low and crashes == self.errand.crashes():
                raise Violation(f"L6 {place} begins at {earliest} again, everything below {low} was deleted")
            if latest > earliest:
                await self._delete_below(connection, place, self.rng.randrange(earliest, latest + 1))
            await self.errand.pause(ADMIN_PAUSES)

    async def _delete_below(self, connection: BrokerConnection, place: Place, offset: int) -> None:
        name, partition = place
        crashes = self.errand.crashes()
        self.history.deletes_below(place, offset)
        asked = DeleteRecordsTopic(
            name=name, partitions=[DeleteRecordsPartition(partition_index=partition, offset=offset)]
        )
        answer = await connection.ask(
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

    async def work(self, connection: BrokerConnection) -> None:
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
