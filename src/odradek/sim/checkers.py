"""Checks the promises. Named as in docs/internals/simulation.md: L the log, P producers, J what clients see.

What a power cut may lose depends on the topic: with flush.messages=1 no record that was acknowledged or read, otherwise
all that was not synced, as long as a prefix remains. A killed process loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from odradek.log.directory import STRAY
from odradek.sim.history import History, Place, Sighting, Violation
from odradek.sim.keyed import OFFSET_MAX, Deletions, check_compacted, is_compacted, is_transactional, last_deletions
from odradek.sim.knobs import TopicPlan
from odradek.sim.on_disk import StoredLog, checkpointed, stored_logs

METADATA_LOG = "__cluster_metadata-0"


@dataclass(slots=True)
class RecoveryWatch:
    """L2: after any stop the log is a prefix of what was appended, and holds everything that was synced.

    Between two incarnations that recovered, the machine may stop any number of times, in the middle of recovery too.
    `quorum_watch` checks the metadata log of a cluster: uncommitted records may be truncated before logs are loaded.
    """

    alone: bool = True
    before: dict[str, StoredLog] = field(default_factory=dict)
    # What was promised to survive a power cut.
    synced: dict[str, StoredLog] = field(default_factory=dict)
    # By name: another log with that name was put aside.
    put_aside: frozenset[str] = frozenset()
    power_was_cut: bool = False
    whole: bool = True

    def stopping(self, files: dict[str, bytes], synced_to: Mapping[str, int] | None, *, power_cut: bool) -> None:
        """`synced_to` by directory; None: everything is synced."""
        if self.whole:
            self.before = stored_logs(files)
            strays = {path.partition("/")[0] for path in files if path.partition("/")[0].endswith(STRAY)}
            self.put_aside = frozenset(directory.rpartition(".")[0] for directory in strays)
            self.synced = self.before if synced_to is None else _up_to(self.before, synced_to)
            self.power_was_cut = power_cut
            self.whole = False
        else:
            self.power_was_cut |= power_cut

    def loaded(self, files: dict[str, bytes], leaving: Callable[[str], bool]) -> dict[str, StoredLog]:
        """`leaving`: whether a directory may be about to be removed, because its topic is being deleted."""
        after = stored_logs(files)
        log_starts = checkpointed(files, "log-start-offset-checkpoint")
        if not self.whole:
            floor = self.synced if self.power_was_cut else self.before
            for directory in sorted(floor):
                if not leaving(directory) and (self.alone or directory != METADATA_LOG):
                    log_start = log_starts.get(directory, 0)
                    self._compare(directory, floor[directory], after.get(directory), log_start)
        self.whole = True
        return after

    def _compare(self, directory: str, floor: StoredLog, after: StoredLog | None, log_start: int) -> None:
        stop = "power cut" if self.power_was_cut else "stop"
        if after is None:
            if floor.batches:
                raise Violation(f"L2 {directory} is gone after a {stop}")
            return
        before = self.before.get(directory, floor)
        # An empty log that was just starting again may be back at its old start; if it was in sync, R2 notices.
        if after.end < floor.end and floor.batches:
            raise Violation(f"L2 {directory} ends at {after.end} after a {stop}, {floor.end} was safe")
        if is_compacted(directory):
            # A compaction that was under way may be complete now.
            where = f"{directory} after a {stop}"
            end = 0 if is_transactional(directory) else OFFSET_MAX
            start = max(after.start, log_start)
            check_compacted(where, floor.content(), after.content(), Deletions.GO, start=start, end=end)
        else:
            self._compare_batches(directory, floor, after, stop)
        if self.power_was_cut and not floor.batches and directory in self.put_aside:
            # Nothing of the new log was synced, so the name may be the old log's again.
            return
        if directory == METADATA_LOG:
            # A new leader has written to it before the node serves.
            return
        if after.batches and after.start > max(before.start, log_start):
            raise Violation(
                f"L2 {directory} begins at {after.start} after a {stop}, with a hole from {before.start} on"
            )
        # A power cut may come before a follower has made a truncation durable; then it truncates again.
        if after.end > max(before.end, floor.end) and self.alone:
            raise Violation(f"L2 {directory} ends at {after.end} after a {stop}, only {before.end} was ever written")
        if is_compacted(directory):
            _require_same(f"L2 {directory} after a {stop}", before.content(), after.content())
        else:
            _require_same(f"L2 {directory} after a {stop}", before.crc_by_offset(), after.crc_by_offset())

    def _compare_batches(self, directory: str, floor: StoredLog, after: StoredLog, stop: str) -> None:
        present = after.crc_by_offset()
        for batch in floor.batches:
            if batch.base_offset >= after.start and present.get(batch.base_offset) != batch.crc:
                raise Violation(f"L2 {directory} lost the batch at {batch.base_offset} in a {stop}")


def _require_same(where: str, written: Mapping[int, object], found: Mapping[int, object]) -> None:
    for offset, there in found.items():
        if written.get(offset, there) != there:
            raise Violation(f"{where} has another batch at {offset}: {there!r}, not {written[offset]!r}")


def _up_to(logs: Mapping[str, StoredLog], ends: Mapping[str, int]) -> dict[str, StoredLog]:
    cut: dict[str, StoredLog] = {}
    for directory, log in logs.items():
        end = min(log.end, ends.get(directory, log.start))
        cut[directory] = StoredLog(log.start, end, [batch for batch in log.batches if batch.last_offset < end])
    return cut


def check_sightings(history: History, place: Place, final: dict[int, bytes], *, safe: bool) -> None:
    """J1 no lost write, J2 one offset one value. `safe`: not even a power cut may lose a record."""
    for sighting in still_promised(history, place, safe=safe):
        offset = sighting.offset
        if final.get(offset) != sighting.value:
            what = "acknowledged" if sighting.acked else "read"
            raise Violation(
                f"J1 {place} offset {offset}: {sighting.value!r} was {what}, in the end there is {final.get(offset)!r}"
            )


def check_keyed_sightings(
    history: History, place: Place, final: dict[int, bytes], deletions: Deletions, *, safe: bool
) -> None:
    """L6 of a compacted topic: J2, J3, and J1 for the latest record of each key."""
    promised = {sighting.offset: sighting.value for sighting in still_promised(history, place, safe=safe)}
    check_compacted(str(place), promised, final, deletions, deleted_at=last_deletions(history, place))
    check_duplicates(history, place, {**promised, **final})


def still_promised(history: History, place: Place, *, safe: bool) -> Iterator[Sighting]:
    """Checks J2 on the way. After the log came back shorter than an offset, that offset may have another value.

    A log that did not come back at all has lost everything: a power cut may take the name of a directory. L2 checks
    whether that was allowed.
    """
    ends = [(incarnation, by_place.get(place, 0)) for incarnation, by_place in sorted(history.ends_at_start.items())]
    horizon = history.deleted_below.get(place, 0)
    values: dict[tuple[int, int], bytes] = {}
    for sighting in history.sightings.get(place, ()):
        offset = sighting.offset
        lives = [incarnation for incarnation, end in ends if end <= offset]
        life = max((incarnation for incarnation in lives if incarnation <= sighting.incarnation), default=0)
        known = values.setdefault((offset, life), sighting.value)
        what = "acknowledged" if sighting.acked else "read"
        if known != sighting.value:
            raise Violation(f"J2 {place} offset {offset} was {known!r} and {what} as {sighting.value!r}")
        lost = any(incarnation > sighting.incarnation for incarnation in lives)
        if offset >= horizon and (safe or not lost):
            yield sighting


def check_duplicates(history: History, place: Place, final: dict[int, bytes]) -> None:
    """J3. Not below the log start: a deletion also drops producer state, and a stop may bring back only the records."""
    first_at: dict[bytes, int] = {}
    for offset in sorted(offset for offset in final if offset >= history.deleted_below.get(place, 0)):
        value = final[offset]
        if value in history.once and value in first_at:
            raise Violation(f"J3 {place} holds {value!r} at {first_at[value]} and at {offset}")
        first_at[value] = offset


def check_jumps(history: History, topics: Mapping[str, TopicPlan]) -> None:
    """J4: a reader's position vanishes only where something may be lost or deleted."""
    for place, position, earliest, latest in history.jumps:
        topic = topics[place[0]]
        if position > latest and topic.safe:
            raise Violation(f"J4 {place} was read up to {position} and ends at {latest}")
        if position < earliest and not topic.shrinks:
            raise Violation(f"J4 {place} begins at {earliest}, nothing below was ever to be deleted")


def check_retention(retention_bytes: int, place: Place, start: int, log: StoredLog, lost_bytes: int = 0) -> None:
    """L6: retention by size leaves at least that size. It may have counted `lost_bytes` that were truncated later."""
    kept = lost_bytes + sum(len(batch.data) for batch in log.batches)
    if retention_bytes >= 0 and start > 0 and kept < retention_bytes:
        raise Violation(f"L6 {place} keeps {kept} bytes, retention.bytes is {retention_bytes}")
