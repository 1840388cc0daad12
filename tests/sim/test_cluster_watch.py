"""The watch over a whole cluster is given each violation that it must detect."""

from dataclasses import replace
from random import Random
from types import SimpleNamespace

import pytest

from odradek.base.ids import NO_BROKER, TopicId, TopicPartition
from odradek.log.config import LogConfig
from odradek.log.directory import LogDirectory
from odradek.metadata.image import PartitionImage, TopicImage
from odradek.quorum.voters import Voter, VoterKey, VoterSet
from odradek.sim import records
from odradek.sim.agreement import check_images, check_replica_logs, log_starts, not_yet_quiet
from odradek.sim.cluster_watch import ClusterWatch
from odradek.sim.disk import SimDisk
from odradek.sim.history import Violation
from odradek.sim.inode import DiskKnobs
from odradek.sim.loop import Host
from odradek.sim.ports import WALL_START_MS
from odradek.sim.randomness import SimRng

TOPIC = TopicId(bytes(15) + b"\7")
REPLICAS = (1, 2, 3)
AGREED = PartitionImage(index=0, replicas=REPLICAS, isr=REPLICAS, leader=1, leader_epoch=0, partition_epoch=0)


class Replica:
    """What the watch sees of a Partition."""

    def __init__(self, number, log):
        self.broker_id = number
        self.topic, self.topic_id, self.index = "firm", TOPIC, 0
        self.log = log
        self.is_leader = number == 1
        self.leader_epoch = 0
        self.high_watermark = self.last_stable_offset = 0
        self.partition_epoch = AGREED.partition_epoch
        self.leading = None

    def __str__(self):
        return "firm-0"


class Member:
    """A node with one replica, and its part of the quorum."""

    def __init__(self, number):
        self.number = number
        self.host = Host(f"node{number}.1")
        self.disk = SimDisk(Random(number), DiskKnobs())
        directory = LogDirectory(self.disk.mount(), SimRng(Random(number)))
        self.replica = Replica(number, _new_log(directory, "firm"))
        self.node = SimpleNamespace(_broker_epoch=number)
        self.fetches = []
        self.election = SimpleNamespace(leader_epoch=1, voted=None)
        self.voters = [(2, voters(*REPLICAS))]
        self.quorum = SimpleNamespace(
            core=SimpleNamespace(leader_epoch=1),
            snapshots=SimpleNamespace(known=[]),
            is_leading=number == 1,
            log=_new_log(directory, "metadata"),
            feed=SimpleNamespace(image=SimpleNamespace(offset=-1)),
        )

    directory_id = b"disk"

    def replicas(self):
        return [self.replica]

    def loads_transactions(self):
        return False

    def transaction_shards(self):
        return []

    def fetched(self):
        return self.fetches

    def durable_election(self):
        return self.election

    def voter_sets(self):
        return list(self.voters)

    def write(self, value, leader_epoch=0):
        _append(self.replica.log, value, leader_epoch)

    def commit_all(self):
        self.replica.high_watermark = self.replica.last_stable_offset = self.replica.log.log_end_offset

    def commit_metadata(self, value):
        _append(self.quorum.log, value, 1)
        self.quorum.feed.image = SimpleNamespace(offset=self.quorum.log.log_end_offset - 1)


def voters(*numbers):
    return VoterSet(tuple(Voter(key=VoterKey(number, b"disk")) for number in numbers))


def _new_log(directory, name):
    return directory.create_log(TopicPartition(name, 0), TOPIC, LogConfig(), WALL_START_MS)


def _append(log, value, leader_epoch):
    batch = bytearray(records.encode([value], WALL_START_MS))
    log.appending.as_leader(memoryview(batch), leader_epoch, WALL_START_MS)


class Cluster:
    """The state of three members that all hold and commit the same two records."""

    def __init__(self):
        self.all = [Member(number) for number in REPLICAS]
        for member in self.all:
            member.write(b"a")
            member.write(b"b")
            member.commit_all()
            member.commit_metadata(b"topic")
        self.partition = AGREED
        self.fenced = ()
        self.watch = ClusterWatch(self, ("firm",))

    def __getitem__(self, number):
        return self.all[number - 1]

    def members(self):
        return self.all

    running = members

    def all_run(self):
        return True

    def partitions(self):
        yield "firm", TOPIC, self.partition

    def is_whole(self):
        return len(self.partition.isr) == len(REPLICAS)

    def image(self):
        topic = TopicImage(name="firm", topic_id=TOPIC, partitions=(self.partition,))
        brokers = {n: SimpleNamespace(broker_epoch=n, fenced=n in self.fenced) for n in REPLICAS}
        offset = max(member.quorum.feed.image.offset for member in self.all)
        return SimpleNamespace(offset=offset, topics={"firm": topic}, brokers=brokers)

    def decide(self, **changes):
        self.partition = replace(AGREED, **changes)
        for member in self.all:
            member.commit_metadata(b"decision")

    def must_see(self, promise):
        with pytest.raises(Violation, match=f"^{promise}"):
            self.watch.look()


@pytest.fixture
def cluster():
    cluster = Cluster()
    cluster.watch.look()
    return cluster


def test_a_truncation_is_reported_once_across_restarts(cluster):
    told = []
    watch = ClusterWatch(cluster, (), shortened=lambda *cut: told.append(cut))
    watch.look()
    cluster[2].write(b"c")
    watch.look()
    assert not told
    cluster[2].host = Host("node2.2")
    cluster[2].replica.log.truncation.to(2)
    watch.look()
    watch.look()
    ((place, lost_bytes),) = told
    assert place == ("firm", 0)
    assert lost_bytes > 60


def test_two_controllers_in_one_epoch(cluster):
    cluster[2].quorum.is_leading = True
    cluster.must_see("Q1")


def test_another_controller_in_another_epoch_is_fine(cluster):
    cluster[2].quorum.is_leading = True
    cluster[2].quorum.core.leader_epoch = 2
    cluster.watch.look()
    cluster[2].quorum.core.leader_epoch = 1
    cluster[2].quorum.is_leading = False
    cluster.must_see("Q2")


def test_metadata_that_goes_back(cluster):
    cluster[3].quorum.feed.image = SimpleNamespace(offset=-1)
    cluster.must_see("Q3")


def test_two_histories_of_the_metadata(cluster):
    cluster[1].commit_metadata(b"one")
    cluster.watch.look()
    cluster[2].commit_metadata(b"another")
    cluster.must_see("Q5")


def test_two_votes_in_one_epoch(cluster):
    election = cluster[2].election
    election.voted = VoterKey(1, b"disk")
    cluster.watch.look()
    election.voted = VoterKey(3, b"disk")
    cluster.must_see("Q8")


def test_another_disk_has_another_vote(cluster):
    election = cluster[2].election
    election.voted = VoterKey(1, b"disk")
    cluster.watch.look()
    cluster[2].directory_id = b"another"
    election.voted = VoterKey(3, b"disk")
    cluster.watch.look()


def test_a_controller_that_lacks_what_is_committed(cluster):
    cluster[2].commit_metadata(b"more")
    cluster.watch.look()
    cluster[3].quorum.is_leading = True
    cluster[3].quorum.core.leader_epoch = 2
    cluster.must_see("Q6")


def test_a_metadata_log_that_begins_after_its_snapshot(cluster):
    cluster[2].quorum.log.advance_log_start(1)
    cluster.must_see("Q9")
    cluster[2].quorum.snapshots.known.append(SimpleNamespace(end_offset=1))
    cluster.watch.look()


def test_two_voters_changed_at_once(cluster):
    cluster[1].voters.append((5, voters(1, 2)))
    cluster.watch.look()
    cluster[1].voters.append((9, voters(1, 4)))
    cluster.must_see("Q10")


def test_a_leader_that_fetches(cluster):
    cluster[1].fetches.append((2, cluster[1].replica))
    cluster.must_see("R8")


def test_a_follower_of_two_leaders(cluster):
    cluster[2].fetches.append((1, cluster[2].replica))
    cluster.watch.look()
    cluster[2].fetches.append((3, cluster[2].replica))
    cluster.must_see("R8")


def test_two_leaders_in_one_epoch(cluster):
    cluster[2].replica.is_leader = True
    cluster.must_see("R9")


def test_a_watermark_that_falls_within_an_epoch(cluster):
    replica = cluster[2].replica
    replica.high_watermark = replica.last_stable_offset = 1
    cluster.must_see("L5")


def test_a_watermark_may_be_lower_in_another_epoch(cluster):
    replica = cluster[2].replica
    replica.high_watermark = replica.last_stable_offset = 1
    replica.leader_epoch = 1
    cluster.watch.look()


def test_a_watermark_beyond_the_end(cluster):
    cluster[2].replica.high_watermark = 3
    cluster.must_see("L5")


def test_two_values_committed_at_one_offset(cluster):
    for number, value in ((1, b"c"), (2, b"d")):
        cluster[number].write(value)
        cluster[number].commit_all()
    cluster.must_see("R3")


def test_one_value_committed_in_two_epochs(cluster):
    for number in (1, 2):
        cluster[number].write(b"c", leader_epoch=number)
        cluster[number].commit_all()
    cluster.must_see("R3")


def test_a_candidate_that_lacks_something(cluster):
    cluster[1].write(b"c")
    cluster[1].commit_all()
    cluster.must_see("R2 .* node 2")


def test_an_eligible_leader_that_lacks_something(cluster):
    cluster[1].write(b"c")
    cluster.decide(isr=(1,), elr=(3,))
    cluster.watch.look()
    cluster[1].commit_all()
    cluster.must_see("R2 .* node 3")


def test_a_broker_that_is_not_registered_yet_is_no_candidate(cluster):
    cluster[1].write(b"c")
    cluster[1].commit_all()
    cluster.decide(isr=(1, 2))
    cluster[2].node._broker_epoch = 99
    cluster.watch.look()


def test_a_leader_that_does_not_wait_for_its_isr(cluster):
    cluster[1].replica.leading = SimpleNamespace(_awaited=[SimpleNamespace(broker_id=2)])
    cluster.must_see("R4")
    cluster[1].replica.leading._awaited.append(SimpleNamespace(broker_id=3))
    cluster.watch.look()


def test_a_leader_may_apply_a_smaller_isr_before_other_nodes(cluster):
    cluster[1].replica.leading = SimpleNamespace(_awaited=[SimpleNamespace(broker_id=2)])
    cluster[1].replica.partition_epoch = AGREED.partition_epoch + 1
    cluster.watch.look()
    cluster[1].write(b"c")
    cluster[1].commit_all()
    cluster.watch.look()
    cluster.decide(isr=(1, 2), partition_epoch=AGREED.partition_epoch + 1)
    cluster.must_see("R2 .* node 2")


def test_a_fenced_broker_in_the_isr(cluster):
    cluster.fenced = (2,)
    cluster.decide()
    cluster.must_see("R7 2 is")


def test_the_last_in_sync_replica_may_be_fenced(cluster):
    cluster.fenced = (2,)
    cluster.decide(isr=(2,), leader=NO_BROKER)
    cluster.watch.look()


def test_a_leader_outside_the_isr(cluster):
    cluster.decide(isr=(2, 3))
    cluster.must_see("R7 1 leads")


def test_a_stranger_in_the_isr(cluster):
    cluster.decide(isr=(1, 4))
    cluster.must_see(r"R7 \[4\]")


def test_not_quiet_before_all_are_in_sync(cluster):
    assert not_yet_quiet(cluster) is None
    cluster.decide(isr=(1, 2))
    assert not_yet_quiet(cluster).startswith("V3")
    cluster.decide(leader=NO_BROKER)
    assert not_yet_quiet(cluster).startswith("V1")
    cluster.decide()
    cluster[1].write(b"c")
    assert not_yet_quiet(cluster).startswith("V3 firm-0 of node 1")


def test_not_quiet_before_all_know(cluster):
    cluster[1].commit_metadata(b"more")
    assert not_yet_quiet(cluster).startswith("V4 node 2")


def test_images_that_differ(cluster):
    for member in cluster.all:
        member.quorum.feed.image = SimpleNamespace(
            offset=0, brokers={}, topics={}, configs={}, features={}, next_producer_id=7
        )
    check_images(cluster)
    cluster[3].quorum.feed.image.next_producer_id = 8
    with pytest.raises(Violation, match=r"^Q11 .* next_producer_id"):
        check_images(cluster)


def test_disks_that_differ(cluster):
    disks = {member.host.name: member.disk for member in cluster.all}

    def check():
        check_replica_logs({name: disk.files() for name, disk in disks.items()}, log_starts(cluster))

    cluster[1].write(b"c")
    check()
    cluster[2].write(b"d")
    with pytest.raises(Violation, match=r"^R3 firm-0 at 2"):
        check()
    cluster[3].replica.log.advance_log_start(2)
    with pytest.raises(Violation, match=r"^R3 firm-0 at 2"):
        check()
    cluster[2].replica.log.advance_log_start(3)
    check()
