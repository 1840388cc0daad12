"""Every rule that protects data, how a test switches it off, and who notices.

A rule that nothing misses is either not needed or not tested. `Seed` is one of the simulation that noticed when this
was written; code that changes makes another run of it, so other seeds get their chance. A story is a test that fails.
`python tools/ablations.py` tries them all and writes the table in docs/track-record.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from importlib import import_module
from itertools import count

from odradek.log.log import Log
from odradek.log.producers import LastBatch
from odradek.quorum.effects import PersistElection
from odradek.quorum.quorum import Quorum
from odradek.quorum.requests import parting
from odradek.sim.knobs import STOPS, Focus

BOUND = 500

STORM = Focus(faults=STOPS)
LOOSE_STORM = Focus(faults=STOPS, syncs_all=False)
CLUSTER_STORM = Focus(
    faults=(
        *("kill", "power cut", "kill of several", "power cut of several", "long pause"),
        *("wall around one", "one-way wall", "wall between halves", "slow way"),
    )
)
# Elections of controllers in a row, and whoever votes forgets what it did not write down.
UNREST = Focus(
    faults=(
        *("kill", "kill at a write", "power cut", "power cut at a write", "power cut of several"),
        *("wall around one", "one-way wall", "wall between halves"),
    ),
    chores=("voters",),
    one_power_cut_at_a_time=False,
)
COMPACTING = Focus(faults=STOPS, compacts=True)
LOST_DISKS = Focus(faults=("lost disk", "wall around one", "kill"), chores=())


def nothing(*_):
    return None


def always(*_):
    return True


def never(*_):
    return False


async def at_once(*_):
    return None


def sync_but_metadata(file):
    if not file.path.startswith("__cluster_metadata"):
        file.sync()


async def count_in_memory(producer_ids):
    producer_ids._block = producer_ids._block if isinstance(producer_ids._block, count) else count()
    return next(producer_ids._block)


def the_cleaned(cleaned_until, _end_offset):
    return cleaned_until


def the_proposed(committed, proposed):
    return tuple(proposed) or tuple(committed)


def the_committed(committed, _proposed):
    return tuple(committed)


def by_id(voters, replica):
    return next((key for key in voters.keys if key.voter_id == replica.voter_id), None)


def to_the_id(replica, voter):
    return voter.voter_id == replica.id


def by_length(log, offset, epoch):
    return None if log.log_start_offset <= offset <= log.log_end_offset else parting(log, offset, epoch)


_step = Quorum.step


def speaks_first(core, event, now):
    return sorted(_step(core, event, now), key=lambda effect: isinstance(effect, PersistElection))


def write_unsynced(disk, election):
    from odradek.quorum.election import QUORUM_STATE_FILE

    path = f"__cluster_metadata-0/{QUORUM_STATE_FILE}"
    content = election.encode()
    with_new = disk.open(f"{path}.new", create=True)
    with_new.truncate(0)
    with_new.pwrite(content, 0)
    with_new.close()
    disk.rename(f"{path}.new", path)


def the_recovery_point(recovery_point, _indexed_to):
    return recovery_point


def the_newest_batch(producer, _end_offset):
    return LastBatch(producer.epoch, producer.batches[-1].last_sequence)


def where_the_log_ends(_segments, log_end_offset):
    return log_end_offset


def in_place(indexes, folder, suffix):
    indexes.write(folder, suffix)


_write_everything = Log.write_everything


def write_with_epochs(log):
    _write_everything(log)
    log.write_epochs()


def by_the_answer(partition, proposal, partition_epoch, now_ms):
    partition.isr, partition.partition_epoch = proposal.members, partition_epoch
    partition.leading.committed(now_ms)
    partition._advance()


@dataclass(frozen=True)
class Switch:
    """`name` may be `Class.method`."""

    module: str
    name: str
    without: object

    def place(self):
        *owners, last = self.name.split(".")
        return reduce(getattr, owners, import_module(f"odradek.{self.module}")), last


@dataclass(frozen=True, kw_only=True)
class Seed:
    number: int
    nodes: int = 1
    controllers: int = 0
    focus: Focus = field(default_factory=Focus)

    @property
    def size(self):
        if self.controllers:
            return f"{self.nodes} brokers and {self.controllers} controllers"
        return "one node" if self.nodes == 1 else f"{self.nodes} nodes"


@dataclass(frozen=True, kw_only=True)
class Rule:
    # What the table calls it: "without …".
    says: str
    off: tuple[Switch, ...]
    seed: Seed | None = None
    stories: tuple[str, ...] = ()
    # Noticed within a second or two: tried with every change.
    quick: bool = True

    def __str__(self):
        return self.says


def of(module, name, without, says, **noticed):
    return Rule(says=says, off=(Switch(module, name, without),), **noticed)


def log(name, without, says, **noticed):
    return of("log.safeguards", name, without, says, **noticed)


def replication(name, without, says, **noticed):
    return of("replication.safeguards", name, without, says, **noticed)


def controller(name, without, says, **noticed):
    return of("controller.safeguards", name, without, says, **noticed)


def three(number, focus=None):
    return Seed(number=number, nodes=3, focus=focus or Focus())


LOG = (
    log("accepts_checksum", always, "the checksum of what a client sends", seed=Seed(number=0)),
    log("recovers_checksum", always, "the checksum at recovery", seed=Seed(number=11, focus=LOOSE_STORM)),
    log("scans_after_unclean_stop", never, "the scan after an unclean stop", seed=Seed(number=0, focus=STORM)),
    log("cuts_torn_tail", never, "cutting the torn tail", seed=Seed(number=22, focus=STORM)),
    log("drops_what_follows_a_hole", never, "dropping what follows a hole", seed=Seed(number=34, focus=LOOSE_STORM)),
    log("expects_sequence", always, "the sequence check", seed=Seed(number=0)),
    log("recognises_duplicates", never, "recognising duplicates", seed=Seed(number=0)),
    log("fences_old_producer_epochs", never, "fencing old producer epochs", seed=Seed(number=0)),
    log("stays_offline_after_failure", never, "staying offline after an I/O error", seed=Seed(number=10, focus=STORM)),
    log(
        *("forgets_clean_stop_before_loading", nothing, "forgetting the clean stop before loading"),
        seed=Seed(number=1, focus=STORM),
    ),
    log("is_spoken_of", always, "asking of which topic a checkpoint speaks", seed=Seed(number=15, focus=STORM)),
    log(
        *("returns_as_another", never, "asking whether a replica comes back as another"),
        stories=("tests/log/test_directory.py::test_a_replica_that_comes_back_is_not_judged_by_the_one_that_left",),
    ),
    log("sync_file", nothing, "syncing files", seed=Seed(number=1, focus=STORM)),
    log("sync_names", nothing, "syncing names", seed=Seed(number=13, focus=STORM)),
    log("sync_leader_epochs", nothing, "syncing the leader epochs", seed=Seed(number=3, focus=STORM)),
    log("sync_everything", nothing, "syncing at a clean stop", seed=Seed(number=11, focus=STORM)),
    log(
        *("recovery_point_to_write", the_recovery_point, "looking again at indexes that are not durable yet"),
        stories=("tests/log/test_durability.py::test_a_power_cut_after_a_roll_leaves_no_index_that_lies",),
    ),
    of(
        *("log.indexes", "ActiveIndexes.replace", in_place, "building an index again beside the old one"),
        stories=("tests/log/test_durability.py::test_an_index_that_could_not_be_built_again_is_not_half_there",),
    ),
    of(
        *("log.log", "Log.write_everything", write_with_epochs, "the leader epochs after the names at a clean stop"),
        stories=("tests/log/test_durability.py::test_a_power_cut_during_a_clean_stop_leaves_a_beginning",),
    ),
    of(
        *("log.retention", "Expired.rename", nothing, "what had expired giving up its name to a log that begins anew"),
        stories=("tests/log/test_retention.py::test_a_log_that_begins_anew_is_spared_by_the_retention_of_what_it_was",),
    ),
    of(
        *("log.segments", "Segments.next_base", where_the_log_ends, "beginning a segment where the last batch ends"),
        stories=("tests/log/test_compaction.py::test_what_follows_a_truncation_into_a_gap_survives_a_crash",),
    ),
    of(
        *("log.producers", "Producer.last_batch", the_newest_batch, "keeping the last committed batch of a producer"),
        stories=("tests/log/test_compaction.py::test_what_may_be_truncated_does_not_say_which_sequence_comes_next",),
    ),
    log(
        *("keeps_from_high_watermark", never, "keeping what is above the high watermark from retention"),
        stories=("tests/log/test_retention.py::test_never_from_the_high_watermark_on",),
    ),
    log(
        *("sync_file", sync_but_metadata, "syncing the metadata log before answering"),
        seed=Seed(number=1, focus=STORM),
    ),
    of(
        *("log.producer_history", "_look_back", nothing, "remembering five batches across a restart"),
        seed=Seed(number=0, focus=Focus(faults=("kill", "clean stop", "reset"))),
    ),
    of(
        *("log.directory", "LogDirectory._write_log_starts", nothing, "writing down log starts"),
        seed=Seed(number=2, focus=Focus(faults=("clean stop",))),
    ),
    log(
        *("is_cleanable", always, "keeping compaction away from what is not committed"),
        seed=three(5, Focus(compacts=True)),
        quick=False,
        stories=("tests/log/test_compaction.py::test_nothing_is_compacted_that_is_not_committed",),
    ),
    log(
        *("keeps_deletion", never, "keeping the deletion of a key for its time"),
        seed=Seed(number=153, focus=COMPACTING),
        stories=("tests/log/test_compaction.py::test_a_deletion_is_kept_for_its_time_from_the_first_cleaning_on",),
    ),
    log(
        *("keeps_last_sequence", never, "keeping a producer's last batch when its records go"),
        seed=Seed(number=16, focus=COMPACTING),
        stories=("tests/log/test_compaction.py::test_the_last_batch_of_a_producer_stays_empty",),
    ),
    log(
        *("keeps_last_offset", never, "keeping the last batch before the high watermark"),
        stories=("tests/log/test_compaction.py::test_the_last_batch_before_the_high_watermark_stays_empty",),
    ),
    log(
        *("keeps_epoch_starts", never, "keeping the first batch of each leader epoch when its records go"),
        stories=("tests/log/test_compaction.py::test_whoever_copies_the_log_knows_where_each_epoch_began",),
    ),
    log(
        *("keeps_epoch_ends", never, "keeping the last batch of each leader epoch when its records go"),
        stories=("tests/log/test_compaction.py::test_whoever_copies_the_log_knows_of_each_epoch",),
    ),
    log(
        *("cleaned_after_truncation", the_cleaned, "compacting again what was truncated and written anew"),
        stories=("tests/log/test_compaction.py::test_a_deletion_after_a_truncation_finds_what_it_deletes",),
    ),
    log(
        *("sync_before_swap", nothing, "syncing what compaction puts in the place of segments"),
        seed=Seed(number=11, focus=COMPACTING),
        stories=("tests/log/test_compaction_lives.py::test_a_crash_at_every_step",),
    ),
    log(
        *("sync_swap", nothing, "syncing each step of that before the next"),
        seed=Seed(number=16, focus=COMPACTING),
        stories=("tests/log/test_compaction_lives.py::test_a_crash_at_every_step",),
    ),
)

QUORUM = (
    of(
        *("quorum.replica", "Replica.has_vote_for", always, "one vote per epoch"),
        seed=three(3, UNREST),
        quick=False,
        stories=("tests/quorum/test_elections.py::test_one_vote_per_epoch",),
    ),
    of(
        *("quorum.replica", "Replica.is_up_to_date", always, "votes only for logs that lack nothing"),
        seed=three(2, UNREST),
        quick=False,
        stories=("tests/quorum/test_elections.py::test_who_has_less_gets_no_vote",),
    ),
    of(
        *("quorum.quorum", "Quorum.step", speaks_first, "writing down a vote before it is given"),
        stories=("tests/quorum/test_elections.py::test_a_vote_is_durable_before_it_is_given",),
    ),
    of(
        *("server.quorum.steps", "write_election", write_unsynced, "syncing a vote"),
        seed=three(2, UNREST),
        quick=False,
    ),
    of(
        *("quorum.requests", "parting", by_length, "comparing metadata logs by their epochs"),
        seed=three(2, UNREST),
        quick=False,
        stories=("tests/quorum/test_replication.py::test_whose_log_differs_has_acknowledged_nothing",),
    ),
    Rule(
        says="knowing voters by their disk, not by their id",
        off=(
            Switch("quorum.voters", "VoterSet.seat_of", by_id),
            Switch("quorum.replica", "Replica.is_addressed", to_the_id),
        ),
        seed=three(8, LOST_DISKS),
        quick=False,
        stories=("tests/quorum/test_replication.py::test_observers_and_voters_with_another_disk_commit_nothing",),
    ),
    of(
        *("quorum.replica", "Replica.is_addressed", always, "refusing what was said to the voter on a lost disk"),
        stories=(
            "tests/quorum/test_elections.py::test_what_was_meant_for_the_lost_disk_is_refused_but_tells_the_leader",
        ),
    ),
    of(
        *("quorum.fetching", "is_all_synced", always, "syncing the metadata before fetching what follows it"),
        stories=("tests/quorum/test_replication.py::test_nothing_is_fetched_before_what_we_have_is_durable",),
    ),
    of(
        *("quorum.leader", "_majority_has", max, "a majority for what is committed"),
        seed=three(25, UNREST),
        quick=False,
        stories=("tests/quorum/test_replication.py::test_committed_is_what_a_majority_has_durably",),
    ),
    of(
        *("quorum.leader", "Leader.may_commit", always, "committing only through a record of the own epoch"),
        stories=("tests/quorum/test_replication.py::test_an_older_epochs_record_on_a_majority_may_still_be_lost",),
    ),
    of(
        *("quorum.follower", "invariant", nothing, "stopping before committed metadata is cut off"),
        stories=("tests/quorum/test_replication.py::test_nothing_committed_is_truncated",),
    ),
    of(
        *("quorum.voter_changes", "VoterChanges._busy", nothing, "changing one voter at a time"),
        stories=("tests/quorum/test_voter_changes.py::test_one_change_at_a_time",),
    ),
)

REPLICATION = (
    replication(
        *("maximal_isr", the_proposed, "waiting for whoever a proposal would remove"),
        seed=three(3),
        stories=("tests/replication/test_leading.py::test_who_does_not_keep_up_leaves_the_isr",),
    ),
    replication(
        *("maximal_isr", the_committed, "waiting for whoever a proposal would add"),
        stories=("tests/replication/test_leading.py::test_the_watermark_waits_for_a_replica_that_is_only_proposed",),
    ),
    replication(
        *("commits_with", always, "min.insync.replicas for what is committed"),
        seed=three(9, CLUSTER_STORM),
        quick=False,
        stories=("tests/replication/test_leading.py::test_below_the_minimum_nothing_is_committed",),
    ),
    replication(
        *("is_in_sync", always, "joining the ISR only with all that is committed"),
        seed=three(0),
        stories=("tests/replication/test_leading.py::test_a_follower_joins_only_from_the_leaders_epoch_on",),
    ),
    replication(
        *("has_deleted_as_much", always, "joining the ISR only with nothing that was deleted"),
        stories=("tests/replication/test_leading.py::test_a_follower_joins_only_without_what_was_deleted",),
    ),
    replication(
        "has_to_delete",
        lambda is_alive, is_eligible: is_alive,
        "waiting with a deletion for those who are away and may lead",
        stories=(
            "tests/replication/test_leading.py::test_a_deletion_waits_for_the_dead_who_may_lead_once_they_are_back",
        ),
    ),
    replication(
        *("is_same_incarnation", always, "forgetting what an earlier life of a follower fetched"),
        stories=("tests/replication/test_leading.py::test_only_a_live_replica_of_the_registered_incarnation_joins",),
    ),
    replication(
        *("agrees_on_leader_epoch", always, "refusing fetches of another leader epoch"),
        stories=("tests/replication/test_following.py::test_an_old_leader_neither_commits_nor_serves_its_followers",),
    ),
    replication(
        *("has_diverged", never, "comparing histories by their epochs"),
        seed=three(2),
        stories=("tests/replication/test_following.py::test_kip_101_logs_of_the_same_length_are_not_the_same_logs",),
    ),
    replication(
        *("truncation_offset", lambda _own, _leaders, high_watermark: high_watermark),
        "truncating by epochs, not to the high watermark",
        stories=("tests/replication/test_following.py::test_kip_101_a_former_leader_keeps_what_its_successor_has",),
    ),
    replication(
        *("is_known_alike", always, "dropping what may have lost against deleted records"),
        stories=(
            "tests/replication/test_following.py::test_what_lost_against_deleted_records_is_not_taken_for_stored",
        ),
    ),
    replication(
        *("is_of_followed_epoch", always, "refusing batches of a later epoch than the followed one"),
        stories=(
            "tests/replication/test_following.py::test_a_batch_of_a_later_epoch_than_the_followed_one_is_not_stored",
        ),
    ),
    replication(
        *("is_still_wanted", always, "dropping answers to outdated questions"),
        stories=("tests/replication/test_following.py::test_an_answer_to_another_question_is_dropped",),
    ),
    of(
        *("replication.partition", "Partition._hold", nothing, "syncing before acknowledging"),
        seed=Seed(number=1, focus=STORM),
    ),
    of(
        *(
            "replication.fetching",
            "Fetching.unsynced",
            nothing,
            "syncing what was fetched before fetching what follows it",
        ),
        stories=("tests/server/test_fetchers.py::test_the_next_question_waits_for_the_fsync",),
        seed=three(2, CLUSTER_STORM),
        quick=False,
    ),
)

# The ISR that a leader knows
DECISIONS = (
    of(
        *("replication.partition", "Partition.isr_accepted", by_the_answer, "hearing of the ISR by the metadata log"),
        stories=("tests/replication/test_leading.py::test_what_was_decided_counts_with_the_minimum_of_that_moment",),
    ),
)

CONTROLLER = (
    controller(
        *("is_current_leader_epoch", always, "refusing proposals of a deposed leader"),
        stories=("tests/controller/test_isr_changes.py::test_a_deposed_leader_is_fenced",),
    ),
    controller(
        *("is_current_partition_epoch", always, "refusing proposals for a partition as it was"),
        stories=("tests/controller/test_isr_changes.py::test_an_outdated_proposal_is_refused",),
    ),
    controller(
        *("is_same_incarnation", always, "refusing a follower that has restarted since it was proposed"),
        stories=("tests/controller/test_isr_changes.py::test_another_incarnation_does_not_join",),
    ),
    controller(
        *("may_join_isr", always, "keeping whoever is fenced or leaving out of the ISR"),
        stories=("tests/controller/test_isr_changes.py::test_who_is_fenced_or_shuts_down_or_is_unknown_does_not_join",),
    ),
    controller(
        *("may_elect_uncleanly", always, "electing only whoever has everything, unless asked"),
        seed=three(3),
        stories=("tests/controller/test_elections.py::test_a_last_leader_that_lost_its_disk_leads_only_when_asked",),
    ),
    controller(
        *("forgets_eligible_after_unclean_stop", never, "forgetting that whoever stopped uncleanly had everything"),
        stories=("tests/controller/test_elections.py::test_after_an_unclean_stop_nobody_is_eligible",),
    ),
    controller("fenced_broker_leaves_isr", never, "taking a fenced broker out of the ISR", seed=three(0)),
    controller(
        *("caught_up_before_unfenced", always, "unfencing a broker only when it knows what was decided"),
        stories=(
            "tests/controller/test_heartbeats.py::test_a_broker_is_unfenced_when_it_has_replayed_its_own_registration",
        ),
    ),
    of(
        *("server.producer_ids", "ProducerIds.next_id", count_in_memory, "producer ids from the metadata log"),
        seed=Seed(number=0),
    ),
)

GROUPS = (
    of(
        *("coordinator.group.committing", "validate_commit", nothing, "checking who commits offsets"),
        seed=Seed(number=0, focus=Focus(group_members=3)),
    ),
    of(
        *("server.coordination", "_until_committed", at_once, "waiting for the commits of a group before serving it"),
        seed=Seed(
            number=1,
            focus=Focus(faults=("kill",), syncs_all=True, slow_call_mean_us=30_000, group_members=3),
        ),
    ),
)

RULES = (*LOG, *QUORUM, *REPLICATION, *DECISIONS, *CONTROLLER, *GROUPS)
# Rooms whose every safeguard must be in the list.
SAFEGUARDS = ("log.safeguards", "replication.safeguards", "controller.safeguards")
