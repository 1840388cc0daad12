"""The verdict as text: for the terminal, and for docs/internals/track-record.md."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from chaos.checker import KINDS
from chaos.run import Outcome

BEGIN, END = "<!-- chaos: begin -->\n", "<!-- chaos: end -->\n"


def table(outcome: Outcome) -> str:
    verdict = outcome.verdict
    figures = [
        ("minutes", f"{outcome.minutes:g}"),
        ("faults", f"{verdict.faults.total()}"),
        *((f"  {kind}", f"{count}") for kind, count in sorted(verdict.faults.items())),
        ("records acknowledged", f"{verdict.acked:,}"),
        ("records whose producer got an error", f"{verdict.failed:,}"),
        ("records read", f"{verdict.read:,}"),
        ("  by the last full read", f"{verdict.read_at_the_end:,}"),
        ("  sent again by their producer in a later epoch", f"{verdict.sent_again:,}"),
        ("assignments of partitions", f"{verdict.assignments:,}"),
        ("commits acknowledged", f"{verdict.commits:,}"),
        ("longest gap between acknowledgements", f"{verdict.longest_gap_s:.1f} s"),
        ("slowest return to all in sync", f"{verdict.slowest_recovery_s:.1f} s"),
        ("bytes compared between replicas", f"{outcome.bytes_compared:,}"),
        *((f"ANOMALY {kind}", f"{verdict.found[kind]:,}") for kind in KINDS if verdict.found[kind]),
        *([("ANOMALY replicas differ", f"{len(outcome.differences)}")] if outcome.differences else []),
    ]
    width = max(len(name) for name, _ in figures)
    lines = [f"{name:{width}}  {value:>12}" for name, value in figures]
    if outcome.skipped:
        lines.append(f"SKIPPED full disk: {outcome.skipped}")
    for kind, examples in verdict.examples.items():
        lines += [f"{kind}: {example}" for example in examples]
    lines += [f"replicas differ: {each}" for each in outcome.differences]
    lines.append(f"checked for: {', '.join(KINDS)}, replicas that differ")
    lines.append("CLEAN" if outcome.clean else "NOT CLEAN")
    return "\n".join(lines) + "\n"


def where_to_look(outcome: Outcome, seed: int) -> str:
    if outcome.clean:
        return f"the run as a picture: {outcome.out / 'timeline.svg'}"
    return (
        f"seed {seed} (make chaos MINUTES={outcome.minutes:g} SEED={seed})\n"
        f"what clients saw:  {outcome.out / 'history'}/*.jsonl, described in tests/chaos/history.py\n"
        f"what nodes logged: {outcome.out}/node-*.log\n"
        f"their directories: {outcome.out}/data\n"
        f"picture:           {outcome.out / 'timeline.svg'}"
    )


def record(outcome: Outcome, seed: int, page: Path) -> None:
    """Put in place of the last run between the two marks of the page, with its picture beside it."""
    picture = page.with_name("chaos.svg")
    picture.write_text((outcome.out / "timeline.svg").read_text())
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(before + BEGIN + paragraph(outcome, seed, picture.name) + END + after)


def paragraph(outcome: Outcome, seed: int, picture: str) -> str:
    verdict = outcome.verdict
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    found = ", ".join(f"{count:,} {kind}" for kind, count in verdict.found.items()) or "nothing"
    rows = "".join(f"| {kind} | {count} |\n" for kind, count in sorted(verdict.faults.items()))
    return (
        f"`make chaos MINUTES={outcome.minutes:g} SEED={seed}`, {datetime.now(UTC):%Y-%m-%d}, commit {commit.strip()}, "
        f"{os.cpu_count()} cores: {verdict.faults.total()} faults, {verdict.acked:,} records acknowledged, "
        f"{verdict.failed:,} with an unknown fate, {verdict.read:,} read, {verdict.commits:,} commits of two groups "
        f"over {verdict.assignments:,} assignments. The checker found {found}; {outcome.bytes_compared:,} bytes were "
        f"the same on all replicas. The longest time without any acknowledgement was {verdict.longest_gap_s:.1f} s "
        "(with two of three nodes gone there can be none), the longest way back to all in sync "
        f"{verdict.slowest_recovery_s:.1f} s.\n\n"
        f"| fault | times |\n|---|---|\n{rows}\n"
        f"![what was struck when, and what was acknowledged and read meanwhile]({picture})\n"
    )
