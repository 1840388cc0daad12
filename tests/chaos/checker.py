"""Reads a history and finds anomalies: after the ideas of Jepsen's checkers for Kafka and for queues.

Anomalies, by name:

    lost write           acknowledged, below the highest offset that was read, and never read
    unseen               acknowledged, above everything that was read in the end
    inconsistent offset  two values at one offset of a partition, seen by writers or readers
    duplicate            one value at two offsets, written in one epoch of its idempotent producer
    reordered            records of one epoch of a producer in another order than it sent them
    non-monotonic poll   a reader of one assignment gets an offset it has had, or one before
    skipped poll         … or one that is not the next
    position lost        a reader gets the error that its position does not exist
    damaged              a value that no writer wrote
    phantom              a record that its writer never sent to that partition
    commit lost          a group gets another offset than it had committed last
    commit backwards     an acknowledged commit lies before the group's position
    missed by group      a group went past a record that none of its members got
    fatal producer error, node died, client died, stalled

Unacknowledged records may be there or not, but only once, and in order. The exception is another epoch: a producer
whose records time out while they are under way continues in its next epoch (librdkafka, KIP-360), and resends records
whose fate it does not know. These are counted, and are not a fault of the brokers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from chaos.history import Event

# A producer's id and epoch.
Epoch = tuple[int, int]
ANY_EPOCH = (-1, -1)
EXAMPLES_MAX = 5
# librdkafka: some records of a batch timed out before the rest of it could be retried. Not a fault of the brokers.
OWN_DOING = "_INCONSISTENT"
KINDS = (
    "lost write",
    "unseen",
    "inconsistent offset",
    "duplicate",
    "reordered",
    "non-monotonic poll",
    "skipped poll",
    "position lost",
    "damaged",
    "phantom",
    "commit lost",
    "commit backwards",
    "missed by group",
    "fatal producer error",
    "node died",
    "client died",
    "stalled",
)


@dataclass(slots=True)
class Verdict:
    found: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    acked: int = 0
    failed: int = 0
    read: int = 0
    read_at_the_end: int = 0
    # Resent by its producer, in a later epoch.
    sent_again: int = 0
    commits: int = 0
    assignments: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    longest_gap_s: float = 0.0
    slowest_recovery_s: float = 0.0

    def find(self, kind: str, example: str) -> None:
        self.found[kind] += 1
        if len(self.examples.setdefault(kind, [])) < EXAMPLES_MAX:
            self.examples[kind].append(example)

    @property
    def clean(self) -> bool:
        return not self.found


def check(history: Iterable[Event]) -> Verdict:
    verdict = Verdict()
    storage, polls, groups = Storage(verdict), Polls(verdict), Groups(verdict)
    last_ack = None
    for event in history:
        what = event["what"]
        storage.see(event)
        polls.see(event)
        groups.see(event)
        if what == "acked":
            if last_ack is not None:
                verdict.longest_gap_s = max(verdict.longest_gap_s, event["t"] - last_ack)
            last_ack = event["t"]
        elif what == "fault":
            verdict.faults[event["kind"]] += 1
        elif what == "healthy":
            verdict.slowest_recovery_s = max(verdict.slowest_recovery_s, event["after_s"])
        elif what == "fatal" and event["code"] != OWN_DOING:
            verdict.find("fatal producer error", f"{event['who']} at {event['t']}: {event['code']}, {event['why']}")
        elif what == "died" and not event["expected"]:
            kind = "node died" if "node" in event else "client died"
            verdict.find(kind, f"{event.get('node', event.get('client'))} at {event['t']}: {event['why']}")
        elif what == "stalled":
            verdict.find("stalled", f"at {event['t']}: {event['why']}")
    storage.conclude()
    groups.conclude()
    return verdict


class Storage:
    """The value at each offset."""

    FINAL = "final"

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict
        # By place and offset: the value, and the client that reported it first.
        self._values: dict[str, dict[int, tuple[str, str]]] = {}
        self._acked: dict[str, dict[int, str]] = {}
        # Acknowledged without an offset.
        self._somewhere: dict[str, list[str]] = {}
        self._read: dict[str, set[int]] = {}
        self._final: dict[str, dict[int, str]] = {}
        self._written: dict[str, list[list[int]]] = {}
        # By record, the partition that it was sent to, as far as known.
        self._sent_to: dict[str, str] = {}

    def see(self, event: Event) -> None:
        what = event["what"]
        if what == "acked":
            place = event["place"]
            for offset, number in event["records"]:
                value = f"{event['who']}:{number}"
                self._sent_to[value] = place
                if offset < 0:
                    # The broker answered that it is a duplicate, without the offset of the original.
                    self._somewhere.setdefault(place, []).append(value)
                    continue
                self._stands(place, offset, value, f"acknowledged to {event['who']} at {event['t']}")
                self._acked.setdefault(place, {})[offset] = value
            self._verdict.acked += len(event["records"])
        elif what == "failed":
            for number in event["numbers"]:
                self._sent_to[f"{event['who']}:{number}"] = event["place"]
            self._verdict.failed += len(event["numbers"])
        elif what == "polled":
            self._polled(event)
        elif what == "written":
            self._written[event["place"]] = event["runs"]
        elif what == "damaged":
            self._verdict.find("damaged", f"{event['place']} offset {event['at']} read by {event['who']}")

    def _polled(self, event: Event) -> None:
        place, values = event["place"], event["values"]
        final = self._final.setdefault(place, {}) if event["who"] == self.FINAL else None
        read = self._read.setdefault(place, set())
        for offset, value in enumerate(values, event["at"]):
            self._stands(place, offset, value, f"read by {event['who']} at {event['t']}")
            read.add(offset)
            if final is not None:
                final[offset] = value
        self._verdict.read += len(values)

    def _stands(self, place: str, offset: int, value: str, said: str) -> None:
        known, by = self._values.setdefault(place, {}).setdefault(offset, (value, said))
        if known != value:
            self._verdict.find("inconsistent offset", f"{place} offset {offset} is {known} ({by}) and {value} ({said})")

    def conclude(self) -> None:
        for place, acked in sorted(self._acked.items()):
            read, final = self._read.get(place, set()), self._final.get(place, {})
            highest = max(final, default=-1)
            for offset, value in acked.items():
                if offset > highest:
                    self._verdict.find("unseen", f"{place} offset {offset}: {value}, the last one read is {highest}")
                elif offset not in read or offset not in final:
                    self._verdict.find("lost write", f"{place} offset {offset}: {value}")
        for place, wanted in sorted(self._somewhere.items()):
            stored = dict.fromkeys(self._final.get(place, {}).values())
            for value in wanted:
                if value not in stored:
                    self._verdict.find("lost write", f"{place}: {value}, acknowledged without an offset")
        for place, values in sorted(self._final.items()):
            self._once_and_in_order(place, values)
            self._verdict.read_at_the_end += len(values)

    def _once_and_in_order(self, place: str, values: Mapping[int, str]) -> None:
        epochs = _epochs(self._written.get(place, []))
        # By value: where it stands, in each epoch of its producer. By writer and epoch: its last number.
        standing: dict[str, dict[Epoch, int]] = {}
        last_of: dict[tuple[str, Epoch], int] = {}
        for offset in sorted(values):
            value, epoch = values[offset], epochs.get(offset, ANY_EPOCH)
            writer, _, number = value.partition(":")
            copies = standing.setdefault(value, {})
            if epoch in copies:
                self._verdict.find("duplicate", f"{place}: {value} at {copies[epoch]} and at {offset}")
                continue
            self._verdict.sent_again += bool(copies)
            copies[epoch] = offset
            before = last_of.get((writer, epoch), -1)
            if number and int(number) < before:
                self._verdict.find("reordered", f"{place} offset {offset}: {value} after {before}")
            last_of[writer, epoch] = int(number or 0)
            if self._sent_to.get(value) != place:
                self._verdict.find("phantom", f"{place} offset {offset}: {value} was never sent there")


def _epochs(runs: Iterable[list[int]]) -> dict[int, Epoch]:
    return {offset: (producer, epoch) for at, end, producer, epoch in runs for offset in range(at, end)}


class Polls:
    """Each reader, from where it was assigned, gets one offset after the other."""

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict
        self._next: dict[tuple[str, str], int] = {}

    def see(self, event: Event) -> None:
        what = event["what"]
        if what == "assigned":
            self._next[event["who"], event["place"]] = event["at"]
            self._verdict.assignments += 1
        elif what == "polled":
            expected, at = self._next.get((event["who"], event["place"]), event["at"]), event["at"]
            if at != expected:
                kind = "non-monotonic poll" if at < expected else "skipped poll"
                self._verdict.find(
                    kind, f"{event['who']} in {event['place']} at {event['t']}: {at} where {expected} is next"
                )
            self._next[event["who"], event["place"]] = at + len(event["values"])
        elif what == "lost":
            self._verdict.find("position lost", f"{event['who']} in {event['place']} at {event['t']}: {event['why']}")


@dataclass(slots=True)
class Commit:
    offset: int
    began: float
    # None: it is not known whether and when it was acknowledged.
    acked: float | None = None
    overwritten: float | None = None


class Groups:
    """A group gets the offset that it committed, and never goes back."""

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict
        self._commits: dict[str, tuple[str, str, Commit]] = {}
        # By group and place: commits that count, may count, or counted until recently.
        self._standing: dict[tuple[str, str], list[Commit]] = {}
        self._floor: dict[tuple[str, str], tuple[int, float]] = {}
        self._group_of: dict[str, str] = {}
        self._given: dict[tuple[str, str], set[int]] = {}

    def see(self, event: Event) -> None:
        match event["what"]:
            case "committing":
                commit = Commit(event["offset"], event["t"])
                self._commits[event["commit"]] = (event["group"], event["place"], commit)
                self._standing.setdefault((event["group"], event["place"]), []).append(commit)
                self._group_of[event["who"]] = event["group"]
            case "uncommitted":
                group, place, commit = self._commits[event["commit"]]
                self._standing[group, place].remove(commit)
            case "committed":
                self._committed(event)
            case "fetched":
                self._group_of[event["who"]] = event["group"]
                self._fetched(event)
            case "polled" if event["who"] in self._group_of:
                given = self._given.setdefault((self._group_of[event["who"]], event["place"]), set())
                given.update(range(event["at"], event["at"] + len(event["values"])))

    def _committed(self, event: Event) -> None:
        group, place, commit = self._commits[event["commit"]]
        commit.acked = event["t"]
        self._verdict.commits += 1
        floor, since = self._floor.get((group, place), (-1, -1.0))
        if commit.offset < floor and commit.began > since:
            self._verdict.find(
                "commit backwards", f"{group} in {place} at {event['t']}: {commit.offset}, it was at {floor}"
            )
        if commit.offset >= floor:
            self._floor[group, place] = (commit.offset, event["t"])
        standing = self._standing[group, place]
        for each in standing:
            if each.acked is not None and each.acked < commit.began and each.overwritten is None:
                each.overwritten = event["t"]
        # 300 s is longer than any client waits for an answer.
        standing[:] = [each for each in standing if each.overwritten is None or each.overwritten > event["t"] - 300]

    def _fetched(self, event: Event) -> None:
        group, place, offset = event["group"], event["place"], event["offset"]
        standing = [
            each
            for each in self._standing.get((group, place), [])
            if each.overwritten is None or each.overwritten >= event["began"]
        ]
        known = [each for each in standing if each.acked is not None and each.acked < event["began"]]
        possible = {each.offset for each in standing}
        if not known:
            possible.add(self._floor.get((group, place), (-1, 0.0))[0])
            possible.add(-1)
        if offset not in possible:
            self._verdict.find(
                "commit lost",
                f"{group} in {place} at {event['t']}: it gets {offset}, and committed {sorted(possible)[-3:]}",
            )
        self._floor[group, place] = (offset, event["t"])

    def conclude(self) -> None:
        for (group, place), given in sorted(self._given.items()):
            missed = [offset for offset in range(max(given)) if offset not in given]
            for offset in missed:
                self._verdict.find("missed by group", f"{group} in {place}: offset {offset}")
