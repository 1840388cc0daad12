"""The verdict in words."""

from __future__ import annotations

from chaos.checker import KINDS
from chaos.run import Outcome


def table(outcome: Outcome) -> str:
    verdict = outcome.verdict
    figures = [
        ("minutes", f"{outcome.minutes:g}"),
        ("faults", f"{verdict.faults.total()}"),
        *((f"  {kind}", f"{count}") for kind, count in sorted(verdict.faults.items())),
        ("records acknowledged", f"{verdict.acked:,}"),
        ("records whose producer was told of a failure", f"{verdict.failed:,}"),
        ("records read", f"{verdict.read:,}"),
        ("  by the last full read", f"{verdict.read_at_the_end:,}"),
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
        return f"picture: {outcome.out / 'timeline.svg'}"
    return (
        f"seed {seed} (make chaos MINUTES={outcome.minutes:g} SEED={seed})\n"
        f"what clients saw:  {outcome.out / 'history'}/*.jsonl, described in tests/chaos/history.py\n"
        f"what nodes logged: {outcome.out}/node-*.log\n"
        f"their directories: {outcome.out}/data\n"
        f"picture:           {outcome.out / 'timeline.svg'}"
    )
