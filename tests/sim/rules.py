"""Every rule that protects data, how a test switches it off, and which seed or test then fails.

A rule whose absence is not detected is either not needed or not tested. `Seed` names the checkers of the simulation
that must notice, and a seed with which one of them did when this was written. Code changes alter the run of a seed, so
a few others are tried after it. A story is a test that fails.
`python tools/ablations.py` tries them all and writes the table in docs/internals/track-record.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from importlib import import_module
from itertools import count
from math import inf
from unittest import mock

from odradek.log.log import Log
from odradek.log.producer import LastBatch
from odradek.quorum.effects import PersistElection
from odradek.quorum.quorum import Quorum
from odradek.quorum.requests import parting
from odradek.sim.knobs import Focus
from odradek.sim.world import World
from sim import focuses

# How many seeds are tried when the named one does not detect the missing rule any more. About half of the seeds do.
TRIES = 16
# The same for rules whose absence shows rarely, which only `make ablations` tries.
TRIES_OF_RARE = 300


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


def the_high_watermark(_unstable, high_watermark):
    return high_watermark


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
    # The invariants of docs/internals/simulation.md that the missing rule breaks, or the error that stops a node.
    finds: tuple[str, ...]
    nodes: int = 1
    focus: Focus = field(default_factory=Focus)

    @property
    def size(self):
        return "one node" if self.nodes == 1 else f"{self.nodes} nodes"

    def run(self, number, faults_until_s=inf):
        adjust = partial(_ending_faults, self.focus.adjust, faults_until_s)
        return World(number, nodes=self.nodes, focus=replace(self.focus, adjust=adjust)).run()


def _ending_faults(adjust, until_s, knobs):
    knobs = knobs if adjust is None else adjust(knobs)
    return replace(knobs, duration_s=min(knobs.duration_s, until_s))


@dataclass(frozen=True, kw_only=True)
class Found:
    number: int
    problem: Exception
    # Simulated time.
    after_s: float


def checker_of(problem):
    """What noticed the problem: an invariant such as L2, or the class of an error that a node did not survive."""
    invariant = re.match(r"[A-Z]\d+ ", str(problem))
    return invariant[0].rstrip() if invariant else type(problem.__cause__ or problem).__name__


@dataclass(frozen=True, kw_only=True)
class Rule:
    # What the table calls it: "without …".
    says: str
    off: tuple[Switch, ...]
    seed: Seed | None = None
    stories: tuple[str, ...] = ()
    # About half of the seeds notice, within a second or two: tried with every change.
    quick: bool = True

    def __str__(self):
        return self.says

    @contextmanager
    def switched_off(self) -> Iterator[None]:
        with ExitStack() as off:
            for switch in self.off:
                off.enter_context(mock.patch.object(*switch.place(), switch.without))
            yield

    def find(self):
        """The first seed whose run without the rule is stopped by one of the declared checkers, or None."""
        with self.switched_off():
            for number in (self.seed.number, *range(TRIES if self.quick else TRIES_OF_RARE)):
                outcome = self.seed.run(number)
                problem = outcome.problem
                if problem is not None and checker_of(problem) in self.seed.finds:
                    return Found(number=number, problem=problem, after_s=outcome.simulated_s)
        return None


def of(module, name, without, says, **noticed):
    return Rule(says=says, off=(Switch(module, name, without),), **noticed)


def log(name, without, says, **noticed):
    return of("log.safeguards", name, without, says, **noticed)


def replication(name, without, says, **noticed):
    return of("replication.safeguards", name, without, says, **noticed)


def controller(name, without, says, **noticed):
    return of("controller.safeguards", name, without, says, **noticed)


def coordinator(name, without, says, story, **noticed):
    return of(
        *("coordinator.transaction.safeguards", name, without, says),
        stories=(f"tests/coordinator/test_transactions.py::{story}",),
        **noticed,
    )


def one(number, focus, *finds):
    return Seed(number=number, focus=focus, finds=finds)


def three(number, focus, *finds):
    return Seed(number=number, nodes=3, focus=focus, finds=finds)


ANY = Focus()


LOG = (
    log("accepts_checksum", always, "the checksum of a client's batch", seed=one(0, ANY, "P1")),
    log("recovers_checksum", always, "the checksum at recovery", seed=one(0, focuses.LOOSE_IN_LARGE_SEGMENTS, "L3")),
    log("scans_after_unclean_stop", never, "the scan after an unclean stop", seed=one(1, focuses.STORM, "L3", "L4")),
    log("cuts_torn_tail", never, "truncating the torn tail", seed=one(0, focuses.LOOSE_IN_SMALL_SEGMENTS, "L3", "J8")),
    log(
        "drops_what_follows_a_hole",
        never,
        "dropping segments behind a gap",
        seed=one(1, focuses.LOOSE_IN_SMALL_SEGMENTS, "J4", "L2"),
    ),
    log("expects_sequence", always, "the sequence check", seed=one(0, ANY, "P1")),
    log("recognises_duplicates", never, "recognising duplicate batches", seed=one(1, ANY, "P1")),
    log("fences_old_producer_epochs", never, "fencing old producer epochs", seed=one(1, ANY, "P1")),
    log(
        "stays_offline_after_failure", never, "staying offline after an I/O error", seed=one(2, focuses.BAD_DISK, "L2")
    ),
    log(
        *("forgets_clean_stop_before_loading", nothing, "removing the clean-stop marker before loading"),
        seed=one(2, focuses.KILLS, "L1", "P1", "J2"),
    ),
    log(
        "is_spoken_of", always, "checking the topic id of a checkpoint", seed=one(0, focuses.FREQUENT_CHECKPOINTS, "L6")
    ),
    log(
        *("returns_as_another", never, "checking whether a returning replica has a new log"),
        stories=("tests/log/test_directory.py::test_checkpoints_of_a_removed_replica_do_not_apply_when_it_returns",),
    ),
    log("sync_file", nothing, "syncing files", seed=one(2, focuses.POWER_CUTS, "L2")),
    log("sync_names", nothing, "syncing names", seed=one(0, focuses.SMALL_SEGMENTS, "L2")),
    log("sync_leader_epochs", nothing, "syncing the leader epochs", seed=one(3, focuses.STORM, "L4")),
    log("sync_everything", nothing, "syncing at a clean stop", seed=one(3, focuses.POWER_CUTS_AFTER_CLEAN_STOPS, "L2")),
    log(
        *("recovery_point_to_write", the_recovery_point, "checking indexes again that are not durable yet"),
        stories=("tests/log/test_durability.py::test_indexes_are_correct_after_a_power_cut_following_a_roll",),
    ),
    of(
        *("log.indexes", "ActiveIndexes.replace", in_place, "rebuilding an index in a new file"),
        stories=("tests/log/test_durability.py::test_failed_index_rebuild_leaves_no_partial_index",),
    ),
    of(
        *(
            "log.log",
            "Log.write_everything",
            write_with_epochs,
            "writing leader epochs after the names at a clean stop",
        ),
        stories=("tests/log/test_durability.py::test_power_cut_during_a_clean_stop_keeps_the_first_segments",),
    ),
    of(
        *("log.deleted", "Expired.rename", nothing, "freeing the names of expired segments for a restarted log"),
        stories=(
            "tests/log/test_retention.py::test_delayed_deletion_of_expired_segments_does_not_remove_a_restarted_log",
        ),
    ),
    of(
        *("log.segments", "Segments.next_base", where_the_log_ends, "beginning a segment where the last batch ends"),
        stories=("tests/log/test_compaction.py::test_records_after_a_truncation_inside_a_gap_survive_a_crash",),
    ),
    of(
        *("log.producer", "Producer.last_batch", the_newest_batch, "keeping the last committed batch of a producer"),
        stories=(
            "tests/log/test_compaction.py::test_last_committed_batch_of_a_producer_is_kept_while_later_ones_are_uncommitted",
        ),
    ),
    log(
        *("keeps_from_high_watermark", never, "keeping records above the high watermark from retention"),
        stories=("tests/log/test_retention.py::test_retention_never_deletes_above_the_high_watermark",),
    ),
    log(
        *("sync_file", sync_but_metadata, "syncing the metadata log before answering"),
        seed=one(1, focuses.POWER_CUTS, "L2"),
    ),
    of(
        *("log.producer_history", "_look_back", nothing, "remembering five batches across a restart"),
        seed=one(2, focuses.LOST_CONNECTIONS, "P1"),
    ),
    of(
        *("log.directory", "LogDirectory._write_log_starts", nothing, "writing log start offsets to disk"),
        seed=one(3, focuses.CLEAN_STOPS, "L6"),
    ),
    log(
        *("is_cleanable", always, "not compacting uncommitted records"),
        seed=three(6, focuses.ISOLATION_AND_COMPACTION, "L6"),
        stories=("tests/log/test_compaction.py::test_uncommitted_records_are_not_compacted",),
    ),
    log(
        *("cleans_what_is_decided_on_disk", lambda _decided, stable: stable, "not using markers that are not on disk"),
        stories=("tests/log/test_transactional_compaction.py::test_marker_is_not_used_before_it_is_on_disk",),
    ),
    log(
        *("keeps_deletion", never, "keeping a tombstone for delete.retention.ms"),
        seed=one(3, focuses.TOMBSTONES, "L6"),
        stories=(
            "tests/log/test_compaction.py::test_tombstone_is_kept_for_delete_retention_ms_after_the_first_compaction",
        ),
    ),
    log(
        *("keeps_last_sequence", never, "keeping a producer's last batch when its records go"),
        seed=one(4, focuses.SUPERSEDED_PRODUCERS, "L4"),
        stories=("tests/log/test_compaction.py::test_last_batch_of_a_producer_is_kept_empty",),
    ),
    log(
        *("keeps_last_offset", never, "keeping the last batch before the high watermark"),
        stories=("tests/log/test_compaction.py::test_last_batch_before_the_high_watermark_is_kept_empty",),
    ),
    log(
        *("keeps_epoch_starts", never, "keeping the first batch of each leader epoch when its records go"),
        stories=("tests/log/test_compaction.py::test_copy_of_a_compacted_log_has_the_start_of_each_leader_epoch",),
    ),
    log(
        *("keeps_epoch_ends", never, "keeping the last batch of each leader epoch when its records go"),
        stories=("tests/log/test_compaction.py::test_copy_of_a_compacted_log_has_every_leader_epoch",),
    ),
    log(
        *("cleaned_after_truncation", the_cleaned, "compacting again after a truncation"),
        stories=("tests/log/test_compaction.py::test_tombstone_after_a_truncation_removes_the_older_value",),
    ),
    log(
        *("sync_before_swap", nothing, "syncing compacted segments"),
        seed=one(2, focuses.COMPACTING, "J8", "L6", "L2"),
        stories=("tests/log/test_compaction_lives.py::test_crash_at_every_step_of_a_compaction",),
    ),
    log(
        *("sync_swap", nothing, "syncing each step of a segment swap before the next"),
        seed=one(2, focuses.COMPACTING, "L6", "L2"),
        stories=("tests/log/test_compaction_lives.py::test_crash_at_every_step_of_a_compaction",),
    ),
)

TRANSACTIONS = (
    log(
        *("is_verified", always, "verifying a transaction before its first batch"),
        stories=("tests/log/test_transactions.py::test_transaction_begins_only_with_a_verification",),
    ),
    log(
        *("accepts_marker_epoch", always, "refusing markers of an earlier transaction"),
        stories=("tests/log/test_transactions.py::test_marker_of_version_2_must_be_newer_than_the_open_transaction",),
    ),
    log(
        *("accepts_coordinator_epoch", always, "refusing markers of a replaced coordinator"),
        stories=("tests/log/test_transactions.py::test_marker_of_a_replaced_coordinator_is_refused",),
    ),
    log(
        *("holds_back_open_transactions", the_high_watermark, "holding back records of open transactions"),
        seed=one(0, focuses.TRANSACTIONS, "T3"),
        stories=(
            "tests/log/test_transactions.py::"
            "test_last_stable_offset_stays_at_the_first_batch_of_the_oldest_open_transaction",
        ),
    ),
    log(
        *("indexes_aborted", nothing, "the index of aborted transactions"),
        seed=one(1, focuses.TRANSACTIONS, "T2", "T4", "T5"),
        quick=False,
        stories=("tests/log/test_transactions.py::test_committed_readers_see_committed_records_and_no_aborted_ones",),
    ),
    log(
        *("rebuilds_transaction_index", never, "rebuilding the index of aborted transactions after a crash"),
        seed=one(2, focuses.TRANSACTIONS_AND_POWER_CUTS, "T2", "T4", "T5"),
        quick=False,
        stories=("tests/log/test_transactions.py::test_crash_rebuilds_an_index_that_was_not_synced",),
    ),
    log(
        *("truncates_transaction_index", never, "truncating the index of aborted transactions with the log"),
        seed=three(6, focuses.DIVIDED_TRANSACTIONS, "L4", "T2"),
        quick=False,
        stories=("tests/log/test_transactions.py::test_truncation_removes_aborted_transactions_with_their_markers",),
    ),
    log(
        *("drops_aborted", never, "ignoring aborted records when a log is compacted"),
        seed=one(2, focuses.TRANSACTIONS_AND_COMPACTION, "L6"),
        quick=False,
        stories=(
            "tests/log/test_transactional_compaction.py::"
            "test_aborted_record_does_not_replace_an_older_record_of_its_key",
        ),
    ),
    log(
        *("keeps_marker", never, "keeping a marker while records of its transaction are left"),
        seed=one(3, focuses.TRANSACTIONS_AND_COMPACTION, "T3", "L4", "L6"),
        quick=False,
        stories=(
            "tests/log/test_transactional_compaction.py::"
            "test_marker_of_a_commit_stays_while_a_record_of_its_transaction_stays",
        ),
    ),
)

COORDINATORS = (
    coordinator(
        *("bumps_epoch_with_each_transaction", never, "an epoch for each transaction"),
        "test_t5_a_delayed_end_of_an_earlier_transaction_cannot_end_the_next_one",
        seed=one(0, focuses.TRANSACTIONS, "T5", "T8"),
    ),
    coordinator(
        *("is_current", always, "refusing the requests of a replaced producer"),
        "test_t4_a_replaced_producer_cannot_get_another_epoch",
        seed=one(0, focuses.TRANSACTIONS, "T4"),
    ),
    coordinator(
        *("aborts_before_new_epoch", never, "aborting the transaction of the producer before"),
        "test_t4_a_new_producer_aborts_the_transaction_of_the_old_one_and_gets_a_higher_epoch",
        seed=one(0, focuses.TRANSACTIONS, "InvariantBroken"),
    ),
    coordinator(
        *("has_ended", always, "waiting for the markers of all partitions"),
        "test_a_transaction_is_not_complete_before_every_partition_has_its_marker",
        seed=three(5, focuses.TRANSACTIONS_AND_KILLS, "T1"),
        quick=False,
    ),
    coordinator(
        *("resumes", never, "completing decided transactions after a failover"),
        "test_t6_a_new_coordinator_completes_what_was_decided",
        seed=one(1, focuses.TRANSACTIONS_AND_KILLS, "V2", "V5"),
        quick=False,
    ),
    coordinator(
        *("needs_new_producer_id", never, "a new producer id when epochs are used up"),
        "test_t8_initialization_rotates_the_producer_id_when_its_epochs_are_used_up",
        seed=one(0, focuses.FEW_EPOCHS, "T8"),
    ),
    coordinator(
        *("is_part_of", always, "refusing batches for partitions that are not part of the transaction"),
        "test_verification_tells_which_partitions_are_part_of_the_open_transaction",
        seed=one(0, focuses.TRANSACTIONS, "T2", "T3", "V5"),
        quick=False,
    ),
)

QUORUM = (
    of(
        *("quorum.replica", "Replica.has_vote_for", always, "one vote per epoch"),
        seed=three(3, focuses.ELECTIONS, "Q8", "InvariantBroken"),
        quick=False,
        stories=("tests/quorum/test_elections.py::test_one_vote_per_epoch",),
    ),
    of(
        *("quorum.replica", "Replica.is_up_to_date", always, "voting only for candidates with a complete log"),
        seed=three(2, focuses.UNREST, "Q5", "Q6"),
        stories=("tests/quorum/test_elections.py::test_candidate_with_an_older_log_gets_no_vote",),
    ),
    of(
        *("quorum.quorum", "Quorum.step", speaks_first, "writing a vote to disk before it is sent"),
        stories=("tests/quorum/test_elections.py::test_vote_is_durable_before_it_is_sent",),
    ),
    of(
        *("server.quorum.steps", "write_election", write_unsynced, "syncing a vote"),
        seed=three(0, focuses.UNREST, "BrokenQuorumState"),
    ),
    of(
        *("quorum.requests", "parting", by_length, "comparing metadata logs by their epochs"),
        seed=three(2, focuses.DIVERGENCE, "Q5", "KafkaError"),
        stories=("tests/quorum/test_replication.py::test_fetch_of_a_diverged_voter_acknowledges_nothing",),
    ),
    Rule(
        says="knowing voters by their disk, not by their id",
        off=(
            Switch("quorum.voters", "VoterSet.seat_of", by_id),
            Switch("quorum.replica", "Replica.is_addressed", to_the_id),
        ),
        seed=three(23, focuses.LOST_DISKS, "Q5", "Q6", "Q10", "InvariantBroken"),
        quick=False,
        stories=(
            "tests/quorum/test_replication.py::test_fetches_of_observers_and_voters_with_another_directory_commit_nothing",
        ),
    ),
    of(
        *("quorum.replica", "Replica.is_addressed", always, "refusing requests for the voter of a lost disk"),
        stories=(
            "tests/quorum/test_elections.py::test_begin_epoch_for_another_directory_is_refused_but_its_leader_is_learned",
        ),
    ),
    of(
        *("quorum.fetching", "is_all_synced", always, "syncing fetched metadata before the next fetch"),
        stories=("tests/quorum/test_replication.py::test_follower_fetches_only_after_its_log_is_durable",),
    ),
    of(
        *("quorum.leader", "_majority_has", max, "a majority for committed metadata"),
        seed=three(1, focuses.UNREST, "Q5"),
        stories=("tests/quorum/test_replication.py::test_record_is_committed_when_a_majority_has_it_durably",),
    ),
    of(
        *("quorum.leader", "Leader.may_commit", always, "committing only through a record of the own epoch"),
        stories=("tests/quorum/test_replication.py::test_record_of_an_older_epoch_on_a_majority_is_not_committed",),
    ),
    of(
        *("quorum.follower", "invariant", nothing, "stopping before committed metadata is truncated"),
        stories=("tests/quorum/test_replication.py::test_committed_records_are_never_truncated",),
    ),
    of(
        *("quorum.voter_changes", "VoterChanges._busy", nothing, "changing one voter at a time"),
        stories=("tests/quorum/test_voter_changes.py::test_voter_change_is_refused_while_another_is_uncommitted",),
    ),
)

REPLICATION = (
    replication(
        *("maximal_isr", the_proposed, "waiting for replicas that a proposal would remove"),
        seed=three(1, focuses.ISOLATION, "R4", "R2"),
        stories=("tests/replication/test_leading.py::test_lagging_follower_leaves_the_isr",),
    ),
    replication(
        *("maximal_isr", the_committed, "waiting for replicas that a proposal would add"),
        stories=(
            "tests/replication/test_leading.py::test_high_watermark_waits_for_a_replica_of_a_pending_isr_proposal",
        ),
    ),
    replication(
        *("commits_with", always, "min.insync.replicas for commits"),
        seed=three(1, focuses.ISOLATION, "R2"),
        stories=("tests/replication/test_leading.py::test_nothing_is_committed_below_min_insync_replicas",),
    ),
    replication(
        *("is_in_sync", always, "joining the ISR only with all committed records"),
        seed=three(5, focuses.ISOLATION, "R2"),
        stories=(
            "tests/replication/test_leading.py::test_follower_joins_the_isr_only_after_it_reached_the_leaders_epoch_start",
        ),
    ),
    replication(
        *("has_deleted_as_much", always, "joining the ISR only without deleted records"),
        stories=(
            "tests/replication/test_leading.py::test_follower_joins_the_isr_only_after_it_deleted_the_deleted_records",
        ),
    ),
    replication(
        "has_to_delete",
        lambda is_alive, is_eligible: is_alive,
        "waiting with a deletion for offline replicas that may lead",
        stories=(
            "tests/replication/test_leading.py::test_delete_records_waits_for_dead_replicas_that_are_eligible_to_lead",
        ),
    ),
    replication(
        *("is_same_incarnation", always, "forgetting the fetches of a follower before its restart"),
        stories=(
            "tests/replication/test_leading.py::test_only_a_live_replica_of_the_registered_incarnation_joins_the_isr",
        ),
    ),
    replication(
        *("agrees_on_leader_epoch", always, "refusing fetches of another leader epoch"),
        stories=("tests/replication/test_following.py::test_an_old_leader_neither_commits_nor_serves_its_followers",),
    ),
    replication(
        *("has_diverged", never, "comparing histories by their epochs"),
        seed=three(3, focuses.ISOLATION_AND_KILLS, "R3"),
        stories=("tests/replication/test_following.py::test_kip_101_diverged_log_of_the_same_length_is_truncated",),
    ),
    replication(
        *("truncation_offset", lambda _own, _leaders, high_watermark: high_watermark),
        "truncating by epochs, not to the high watermark",
        stories=(
            "tests/replication/test_following.py::test_kip_101_former_leader_keeps_records_that_its_successor_has",
        ),
    ),
    replication(
        *("is_known_alike", always, "dropping records that may have lost against deleted records"),
        stories=(
            "tests/replication/test_following.py::test_retry_of_a_diverged_record_is_no_duplicate_when_records_were_deleted",
        ),
    ),
    replication(
        *("is_of_followed_epoch", always, "refusing batches of a later epoch than the followed one"),
        stories=(
            "tests/replication/test_following.py::test_a_batch_of_a_later_epoch_than_the_followed_one_is_not_stored",
        ),
    ),
    replication(
        *("is_still_wanted", always, "dropping responses to outdated fetches"),
        stories=("tests/replication/test_following.py::test_reply_to_an_outdated_fetch_is_ignored",),
    ),
    of(
        *("replication.partition", "Partition._hold", nothing, "syncing before acknowledging"),
        seed=one(0, focuses.POWER_CUTS, "J1", "J2"),
    ),
    of(
        *(
            "replication.fetching",
            "Fetching.unsynced",
            nothing,
            "syncing fetched records before the next fetch",
        ),
        stories=("tests/server/test_fetchers.py::test_the_next_fetch_waits_for_the_fsync",),
        seed=three(7, focuses.SLOW_FOLLOWERS, "R2", "R3"),
        quick=False,
    ),
)

# The ISR that a leader knows
DECISIONS = (
    of(
        *(
            "replication.partition",
            "Partition.isr_accepted",
            by_the_answer,
            "learning the ISR only from the metadata log",
        ),
        stories=("tests/replication/test_leading.py::test_isr_change_takes_effect_with_the_min_isr_of_the_same_image",),
    ),
)

CONTROLLER = (
    controller(
        *("is_current_leader_epoch", always, "refusing proposals of a deposed leader"),
        stories=("tests/controller/test_isr_changes.py::test_a_deposed_leader_is_fenced",),
    ),
    controller(
        *("is_current_partition_epoch", always, "refusing proposals for an outdated partition epoch"),
        stories=("tests/controller/test_isr_changes.py::test_an_outdated_proposal_is_refused",),
    ),
    controller(
        *("is_same_incarnation", always, "refusing a follower that has restarted since it was proposed"),
        stories=("tests/controller/test_isr_changes.py::test_another_incarnation_does_not_join",),
    ),
    controller(
        *("may_join_isr", always, "keeping fenced and stopping brokers out of the ISR"),
        stories=(
            "tests/controller/test_isr_changes.py::test_a_fenced_stopping_or_unknown_broker_does_not_join_the_isr",
        ),
    ),
    controller(
        *("may_elect_uncleanly", always, "electing only replicas with all committed records, unless unclean"),
        seed=three(6, focuses.ISOLATION_AND_KILLS, "R2", "L5"),
        stories=(
            "tests/controller/test_elections.py::test_a_last_leader_that_lost_its_disk_needs_an_unclean_election",
        ),
    ),
    controller(
        *("forgets_eligible_after_unclean_stop", never, "removing the eligibility of a replica after an unclean stop"),
        stories=("tests/controller/test_elections.py::test_after_an_unclean_stop_the_replica_is_not_eligible",),
    ),
    controller(
        "fenced_broker_leaves_isr", never, "taking a fenced broker out of the ISR", seed=three(3, focuses.FENCING, "R7")
    ),
    controller(
        *("caught_up_before_unfenced", always, "unfencing a broker only after it has replayed its registration"),
        stories=(
            "tests/controller/test_heartbeats.py::test_a_broker_is_unfenced_when_it_has_replayed_its_own_registration",
        ),
    ),
    of(
        *("server.producer_ids", "ProducerIds.next_id", count_in_memory, "producer ids from the metadata log"),
        seed=one(2, ANY, "P3"),
    ),
)

GROUPS = (
    of(
        *("coordinator.group.committing", "validate_commit", nothing, "checking who commits offsets"),
        seed=one(4, Focus(group_members=3), "G4"),
    ),
    of(
        *("coordinator.runtime", "_until_committed", at_once, "waiting for the commits of a group before serving it"),
        seed=one(3, focuses.SLOW_GROUPS, "G4"),
    ),
)

RULES = (*LOG, *TRANSACTIONS, *COORDINATORS, *QUORUM, *REPLICATION, *DECISIONS, *CONTROLLER, *GROUPS)
# Modules whose every safeguard must be in the list.
SAFEGUARDS = (
    "log.safeguards",
    "coordinator.transaction.safeguards",
    "replication.safeguards",
    "controller.safeguards",
)
