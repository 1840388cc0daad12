"""The active controller on a disk in memory: what is committed, when it is seen, what survives."""

from __future__ import annotations

import asyncio
import copy
import functools

import pytest

from odradek.adapters.memory_disk import MemoryDisk, MemoryFile
from odradek.base import limits
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import BrokerId, LeaderEpoch
from odradek.base.ports import Ports
from odradek.controller.brokers import Registration, register_broker
from odradek.controller.decision import Decision
from odradek.controller.fencing import fence_broker, unfence_broker
from odradek.controller.topics import TopicDefaults, create_topics, delete_topics
from odradek.metadata.batches import read_batches
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.image import ClusterImage, Listener
from odradek.metadata.metadata_log import image_of_snapshot
from odradek.metadata.snapshots import decode_snapshot, snapshot_path
from odradek.metadata.voter_history import VoterHistory
from odradek.node.format import open_directory
from odradek.protocol.messages.p19_create_topics import CreatableTopic
from odradek.protocol.messages.p20_delete_topics import DeleteTopicState
from odradek.protocol.metadata_records import ConfigRecord, NoOpRecord, PartitionChangeRecord
from odradek.quorum.election import ElectionState, decode_election
from odradek.quorum.timing import QuorumTiming
from odradek.quorum.voters import Voter, VoterKey
from odradek.security.authorizer import AllowAll
from odradek.server.api.controller_table import load_controller_apis
from odradek.server.controller.active_controller import ActiveController
from odradek.server.controller.controller import Controller
from odradek.server.controller.controller_channel import ControllerChannel
from odradek.server.network.request import ControllerContext
from odradek.server.producer_ids import ProducerIds
from odradek.server.quorum.member import Member
from odradek.server.quorum.metadata_quorum import MetadataQuorum
from support.loops import run_within_limit
from support.seeded_rng import SeededRng

LOG = "__cluster_metadata-0/00000000000000000000.log"


def on_a_loop(story):
    @functools.wraps(story)
    def run():
        run_within_limit(story())

    return run


class Clock:
    def wall_ms(self) -> int:
        return 1_700_000_000_000

    def __init__(self) -> None:
        self.now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000


class Gate:
    """A spawner whose blocking calls wait at a gate, open at first, so that a test decides when an fsync ends."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.calls = 0
        self.failures: list[BaseException] = []
        self.failed = asyncio.Event()
        self.watch = lambda: None

    def spawn(self, name, work):
        task = asyncio.get_running_loop().create_task(work, name=name)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.failures.append(task.exception())
            self.failed.set()

    async def blocking(self, call, *arguments):
        self.calls += 1
        await self.open.wait()
        self.watch()
        outcome = call(*arguments)
        self.watch()
        return outcome


class Node:
    """A directory and the controller on it."""

    def __init__(self, disk: MemoryDisk | None = None, seed: int = 0, **member: int) -> None:
        self.disk = disk or MemoryDisk()
        self.rng = SeededRng(seed)
        self.gate = Gate()
        self.identity = open_directory(self.disk, node_id=BrokerId(1), clock=Clock(), rng=self.rng)
        member = Member(
            voter=Voter(key=VoterKey(BrokerId(1), self.identity.directory_id)),
            cluster_id=self.identity.cluster_id,
            timing=QuorumTiming(),
            **member,
        )
        ports = Ports(clock=Clock(), rng=self.rng, disk=self.disk, net=None, spawner=self.gate)
        self.quorum = MetadataQuorum(member, ports, peers=None)
        self.clock = Clock()
        self.controller = ActiveController(self.quorum, BrokerConfig.parse({}), self.clock, self.gate)
        self.seen = []
        self.quorum.feed.subscribe(lambda image, delta: self.seen.append((image, delta)))
        self.broker_epoch = -1

    @property
    def image(self):
        return self.quorum.feed.image

    async def lead(self) -> None:
        """The log is loaded, the bootstrap records are committed."""
        await self.quorum.start()
        await self.controller.submit(lambda _: Decision(response=None))

    def producer_ids(self) -> ProducerIds:
        apis = load_controller_apis()
        apart = Controller(
            node_id=BrokerId(1),
            cluster_id=self.identity.cluster_id,
            config=BrokerConfig.parse({}),
            clock=Clock(),
            rng=self.rng,
            spawner=self.gate,
            authorizer=AllowAll(),
            apis=apis,
            quorum=self.quorum,
            controller=self.controller,
        )
        channel = ControllerChannel(
            node_id=BrokerId(1),
            quorum=self.quorum,
            peers=None,
            apis=apis,
            context=lambda connection, version: ControllerContext(apart, connection, version),
        )
        return ProducerIds(channel, BrokerId(1), self.broker_epoch)

    async def stop(self) -> None:
        self.controller.stop_deciding()
        await self.quorum.stop()

    async def start(self) -> Node:
        await self.lead()
        registration = Registration(
            broker_id=BrokerId(1),
            cluster_id=self.identity.cluster_id,
            incarnation_id=self.rng.bytes(16),
            listeners=(Listener("PLAINTEXT", "localhost", 9092, 0),),
            directories=(self.identity.directory_id,),
        )
        self.broker_epoch = await self.controller.submit(lambda image: register_broker(image, registration))
        await self.controller.submit(lambda image: unfence_broker(image, BrokerId(1), self.broker_epoch))
        self.seen.clear()
        return self

    def create(self, name: str, partitions: int = 1):
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        return self.controller.submit(
            lambda image: create_topics(image, [topic], defaults=TopicDefaults(), rng=self.rng)
        )

    def crashed(self, log_bytes: int | None = None) -> MemoryDisk:
        """The disk as a killed process leaves it; with `log_bytes`, as a power cut leaves the end of the log."""
        disk = copy.deepcopy(self.disk)
        if log_bytes is not None:
            disk.open(LOG).truncate(log_bytes)
        return disk

    def log_bytes(self) -> int:
        return self.disk.open(LOG).size()

    def records(self) -> list[str]:
        batches = read_batches(self.disk.read(LOG))
        return [type(record).__name__ for batch in batches for record in (*batch.control, *batch.records)]


@on_a_loop
async def test_records_written_by_a_first_start():
    node = await Node().start()
    assert node.records() == [
        "LeaderChangeMessage",
        "KRaftVersionRecord",
        "VotersRecord",
        "BeginTransactionRecord",
        "FeatureLevelRecord",
        "FeatureLevelRecord",
        "FeatureLevelRecord",
        "ConfigRecord",
        "EndTransactionRecord",
        "RegisterBrokerRecord",
        "BrokerRegistrationChangeRecord",
    ]
    assert node.broker_epoch == 9
    election = decode_election(node.disk.read("__cluster_metadata-0/quorum-state"))
    assert (election.leader_epoch, election.leader_id, election.voted) == (1, 1, None)
    await node.stop()


@on_a_loop
async def test_a_restart_leads_the_next_epoch_and_has_all_metadata():
    node = await Node().start()
    await node.create("orders", 3)
    await node.stop()
    again = Node(copy.deepcopy(node.disk), seed=1)
    await again.lead()
    assert again.quorum.leader_epoch == 2
    assert again.identity == node.identity
    image, delta = again.seen[0]
    assert image.topics["orders"] == node.image.topics["orders"]
    assert [topic.name for topic in delta.created] == ["orders"]
    assert again.records()[-1] == "LeaderChangeMessage"
    await again.stop()


@on_a_loop
async def test_an_epoch_once_voted_in_is_never_used_again():
    """The log has no record of a leader that died right after its vote."""
    node = await Node().start()
    await node.stop()
    voted = ElectionState(leader_epoch=LeaderEpoch(5), voted=VoterKey(BrokerId(1), node.identity.directory_id))
    node.disk.replace("__cluster_metadata-0/quorum-state", voted.encode())
    again = await Node(node.disk, seed=1).start()
    assert again.quorum.leader_epoch == 6


@on_a_loop
async def test_a_crash_at_any_step_of_a_start_loses_nothing():
    node = await Node().start()
    await node.create("orders", 2)
    starting = Node(node.crashed(), seed=1)
    moments = []
    starting.gate.watch = lambda: moments.append(starting.crashed())
    await starting.start()
    assert len(moments) > 8
    for number, disk in enumerate(moments):
        again = await Node(disk, seed=2 + number).start()
        assert again.quorum.leader_epoch in (2, 3)
        topic = again.image.topics["orders"]
        assert topic.topic_id == node.image.topics["orders"].topic_id
        assert [partition.leader for partition in topic.partitions] == [1, 1]


@on_a_loop
async def test_partitions_get_a_new_leader_epoch_at_each_start():
    node = await Node().start()
    await node.create("orders")
    again = await Node(node.crashed(), seed=1).start()
    partition = again.image.topics["orders"].partitions[0]
    assert (partition.leader, partition.isr, partition.leader_epoch) == (1, (1,), 2)


@on_a_loop
async def test_nothing_is_visible_before_it_is_on_disk():
    node = await Node().start()
    node.gate.open.clear()
    reply = node.create("orders")
    await asyncio.sleep(0)
    assert not reply.done()
    assert "orders" not in node.image.topics
    assert node.seen == []
    node.gate.open.set()
    (result,) = await reply
    assert node.image.topics["orders"].topic_id == result.topic_id
    assert [delta.created[0].name for _, delta in node.seen] == ["orders"]


@on_a_loop
async def test_listeners_get_a_commit_before_the_client_is_answered():
    node = await Node().start()
    reply = node.create("orders")
    known = []
    node.quorum.feed.subscribe(lambda image, delta: known.append(reply.done()))
    await reply
    assert known == [False]


@on_a_loop
async def test_a_decision_sees_all_earlier_decisions():
    node = await Node().start()
    node.gate.open.clear()
    first, second = node.create("orders"), node.create("orders")
    deletion = node.controller.submit(lambda image: delete_topics(image, [DeleteTopicState(name="orders")]))
    node.gate.open.set()
    assert [result[0].error_code for result in (await first, await second, await deletion)] == [0, 36, 0]
    assert "orders" not in node.image.topics


@on_a_loop
async def test_an_answer_without_records_waits_for_what_it_saw():
    node = await Node().start()
    node.gate.open.clear()
    first, refused = node.create("orders"), node.create("orders")
    await asyncio.sleep(0)
    assert not refused.done()
    node.gate.open.set()
    await refused
    assert first.done()
    assert (await node.controller.submit(lambda image: Decision(response=len(image.topics)))) == 1


@on_a_loop
async def test_decisions_made_during_an_fsync_are_synced_together_by_the_next():
    node = await Node().start()
    node.gate.open.clear()
    before = node.gate.calls
    replies = [node.create("t0")]
    await asyncio.sleep(0)
    replies += [node.create(f"t{number}") for number in range(1, 50)]
    node.gate.open.set()
    await asyncio.gather(*replies)
    assert node.gate.calls - before == 2
    assert [delta.created[0].name for _, delta in node.seen] == [f"t{number}" for number in range(50)]


@on_a_loop
async def test_a_failed_fsync_acknowledges_nothing_and_stops_the_node():
    node = await Node().start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryFile, "sync", _burn)
        first, second = node.create("orders"), node.create("invoices")
        for reply in (first, second):
            with pytest.raises(KafkaError) as refused:
                await reply
            assert refused.value.code is ErrorCode.NOT_CONTROLLER
    assert not node.image.topics
    while not node.gate.failures:  # noqa: ASYNC110 (the gate has no event for it)
        await asyncio.sleep(0)
    (failure,) = node.gate.failures
    assert failure.code is ErrorCode.KAFKA_STORAGE_ERROR
    # The disk works again, but the controller stays stopped: what the failed fsync left on disk is unknown.
    with pytest.raises(KafkaError):
        node.create("late")
    await node.stop()


@on_a_loop
async def test_a_failed_write_stops_the_node_too():
    node = await Node().start()
    node.gate.open.clear()
    earlier = node.create("invoices")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryFile, "pwrite", _burn)
        with pytest.raises(KafkaError) as refused:
            node.create("orders")
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
    node.gate.open.set()
    with pytest.raises(KafkaError):
        await earlier
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [failure.code for failure in node.gate.failures] == [ErrorCode.KAFKA_STORAGE_ERROR]
    with pytest.raises(KafkaError):
        node.create("late")


@on_a_loop
async def test_a_node_that_was_paused_does_not_fence_its_own_broker_before_it_could_send_a_heartbeat():
    node = await Node().start()
    node.controller.heartbeats.touch(BrokerId(1), node.broker_epoch, node.clock.monotonic_ms())
    for later_ms, fenced in ((60_000, False), (10_000, True)):
        node.clock.now_ms += later_ms
        node.controller._fence_the_silent()
        await node.controller.submit(lambda _: Decision(response=None))
        assert node.image.brokers[BrokerId(1)].fenced is fenced


@on_a_loop
async def test_a_failed_write_of_the_controllers_own_decision_is_reported_once():
    node = await Node().start()
    heartbeats = node.controller.heartbeats
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryFile, "pwrite", _burn)
        patch.setattr(heartbeats, "stale", lambda _now_ms: [1])
        patch.setattr(
            heartbeats,
            "fence_one_stale",
            lambda image, _: fence_broker(image, BrokerId(1), node.broker_epoch, "silence"),
        )
        node.controller._fence_the_silent()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [failure.code for failure in node.gate.failures] == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_an_unclean_election_is_a_warning_with_the_partition_and_the_leader(caplog):
    async def elect() -> None:
        node = await Node().start()
        await node.create("orders")
        topic_id = node.image.topics["orders"].topic_id
        fields = {"topic_id": topic_id, "partition_id": 0}
        lost = PartitionChangeRecord(**fields, leader=-1, isr=[])
        elected = PartitionChangeRecord(**fields, leader=1, isr=[1], leader_recovery_state=1)
        for record in (lost, elected):
            await node.controller.submit(lambda _, record=record: Decision(response=None, records=(record,)))

    asyncio.run(elect())
    assert [each.message for each in caplog.records if each.levelname == "WARNING"] == [
        "elected leaders that were not in sync, so committed records may be lost: broker 1 for orders-0"
    ]


def test_decisions_are_logged_truncated_and_refused_decisions_are_not_logged(caplog):
    caplog.set_level("INFO", logger="odradek.server.controller.active_controller")
    too_many = (NoOpRecord(),) * (limits.metadata_records_per_decision_max + 1)

    async def decide() -> None:
        node = await Node().start()
        with pytest.raises(KafkaError):
            node.controller.submit(lambda _: Decision(response=None, records=too_many, sentence="did too much"))
        await node.controller.submit(lambda _: Decision(response=None, sentence="told " * 100_000))

    asyncio.run(decide())
    assert "did too much" not in caplog.text
    assert 3000 < len(caplog.messages[-1]) < 5000


def _burn(*_):
    raise OSError("disk on fire")


@on_a_loop
async def test_a_refused_decision_writes_nothing():
    node = await Node().start()
    before = node.log_bytes()

    def refuse(_):
        raise KafkaError(ErrorCode.POLICY_VIOLATION)

    with pytest.raises(KafkaError):
        await node.controller.submit(refuse)
    huge = ConfigRecord(resource_type=4, resource_name="", name="x", value="v" * limits.metadata_batch_bytes_max)
    too_many = (NoOpRecord(),) * (limits.metadata_records_per_decision_max + 1)
    for records in ((huge,), too_many):
        with pytest.raises(KafkaError) as refused:
            await node.controller.submit(lambda _, records=records: Decision(records=records, response=None))
        assert refused.value.code is ErrorCode.POLICY_VIOLATION
    assert node.log_bytes() == before
    await node.create("orders")


@on_a_loop
async def test_a_large_decision_that_may_be_split_is_written_in_several_batches():
    node = await Node().start()
    many = (NoOpRecord(),) * (limits.metadata_records_per_decision_max + 1)
    before = len(list(read_batches(node.disk.read(LOG))))
    await node.controller.submit(lambda _: Decision(records=many, response=None, atomic=False))
    assert len(list(read_batches(node.disk.read(LOG)))) == before + 2


@on_a_loop
async def test_a_stop_commits_pending_decisions_and_refuses_new_ones():
    node = await Node().start()
    node.gate.open.clear()
    reply = node.create("orders")
    stopping = asyncio.ensure_future(node.stop())
    await asyncio.sleep(0)
    with pytest.raises(KafkaError):
        node.create("late")
    node.gate.open.set()
    await stopping
    assert (await reply)[0].error_code == 0


@on_a_loop
async def test_a_torn_log_tail_loses_only_unacknowledged_decisions():
    node = await Node().start()
    await node.create("kept", 2)
    acknowledged = node.log_bytes()
    node.gate.open.clear()
    unanswered = node.create("torn", 2)
    for cut in range(acknowledged, node.log_bytes() + 1, 7):
        again = await Node(node.crashed(cut), seed=cut).start()
        topics = again.image.topics
        assert topics["kept"].topic_id == node.image.topics["kept"].topic_id
        assert len(topics["kept"].partitions) == 2
        # A decision is one batch: it is there whole or not at all.
        assert "torn" not in topics or len(topics["torn"].partitions) == 2
        await again.create("after")
    node.gate.open.set()
    await unanswered


@on_a_loop
async def test_a_producer_id_is_never_given_twice_wherever_the_node_dies():
    given: list[int] = []
    disk: MemoryDisk | None = None
    for life in range(12):
        node = await Node(disk, seed=life).start()
        ids = node.producer_ids()
        given += [await ids.next_id() for _ in range(life % 4 + 1)]
        durable = node.log_bytes()
        node.gate.open.clear()
        unanswered = node.create(f"t{life}", life)
        cut = durable + (node.log_bytes() - durable) * life // 11
        disk = node.crashed(cut)
        unanswered.cancel()
        node.gate.open.set()
        await node.stop()
    assert len(set(given)) == len(given)


@on_a_loop
async def test_one_block_is_asked_for_at_a_time():
    node = await Node().start()
    ids = node.producer_ids()
    given = await asyncio.gather(*(ids.next_id() for _ in range(2500)))
    assert sorted(given) == list(range(2500))
    assert node.image.next_producer_id == 3000


@on_a_loop
async def test_the_whole_log_replayed_is_the_live_image():
    node = await Node().start()
    for number in range(20):
        await node.create(f"t{number}", number % 3 + 1)
        if number % 4 == 0:
            name = f"t{number // 2}"
            await node.controller.submit(lambda image, name=name: delete_topics(image, [DeleteTopicState(name=name)]))
    again = Node(node.crashed(), seed=1)
    await again.lead()
    live, loaded = node.image, again.seen[0][0]
    assert loaded.topics == live.topics
    assert loaded.topics_by_id == live.topics_by_id
    assert loaded.brokers == live.brokers
    assert loaded.offset == live.offset


@on_a_loop
async def test_a_commit_that_cannot_be_applied_stops_the_node():
    """KAFKA-14275: no event follows it, whether a follower's fetch or a timer caused the commit."""
    node = await Node().start()

    def confused(_image, _delta) -> None:
        raise LookupError("no such partition")

    node.quorum.feed.subscribe(confused)
    asked = asyncio.ensure_future(node.create("a"))
    await node.gate.failed.wait()
    asked.cancel()
    assert [str(failure) for failure in node.gate.failures] == ["no such partition"]
    assert not node.controller.is_active


@on_a_loop
async def test_a_snapshot_is_named_after_the_first_offset_that_it_lacks():
    """KAFKA-14618: if it were off by one, a node that starts from it would repeat or miss a record."""
    node = await Node(snapshot_every_bytes=1).start()
    for name in ("a", "b", "c"):
        await node.create(name)
        await node.quorum.snapshots.idle()
    then = {image.offset: image for image, _ in node.seen}
    (snapshot, *_) = (known for known in node.quorum.snapshots.known if known.end_offset - 1 in then)
    content = node.disk.read(snapshot_path(snapshot))
    empty = ClusterImage(cluster_id=node.identity.cluster_id)
    batches = decode_snapshot(content, snapshot_path(snapshot))
    image = image_of_snapshot(batches, snapshot, empty, VoterHistory())
    assert list(image.topics) == list(then[snapshot.end_offset - 1].topics) != list(node.image.topics)
    await node.stop()
