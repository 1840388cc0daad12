"""Results as two tables and a picture."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rows import ROWS, Row

DOCS = Path(__file__).resolve().parent.parent / "docs"
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
CLIENT_IS_BUSY = 0.1  # waits less than this share of the time
CLIENT_MARK = " †"

Medians = dict[str, dict[str, float]]


def figure(row: Row, median: dict[str, float]) -> str:
    if row.unit == "ms":
        return f"p50 {median['p50_us'] / 1000:.3f} p99 {median['p99_us'] / 1000:.3f} ms"
    if row.unit == "s":
        return f"{median['gap_s']:.2f} s"
    return f"{throughput(row, median):,.0f} {row.unit}"


def throughput(row: Row, median: dict[str, float]) -> float:
    return median[{"MB/s": "mb_per_s", "records/s": "records_per_s", "requests/s": "requests_per_s"}[row.unit]]


def markdown(results: dict[str, Any]) -> str:
    told, rows = results["conditions"], results["rows"]
    parts = [
        f"{told['date']}, commit {told['commit']}; {told['machine']}; Python {told['python']}; "
        f"Apache Kafka {told['kafka']} on Java {told['java']}.",
        "### Server-side speed, beside the raw limit and the prototype",
        limit_table(rows),
        "### Beside Apache Kafka",
        kafka_table(list(alone(rows))),
        "### A cluster beside a cluster of Apache Kafka",
        kafka_table(list(clusters(rows))),
        f"{CLIENT_MARK.strip()} the client was the bottleneck: compare the server CPU.",
    ]
    if results["failures"]:
        parts += ["### Failed", "\n".join(f"- {failure}" for failure in results["failures"])]
    return "\n\n".join(parts) + "\n"


def table(head: list[str], lines: list[list[str]]) -> str:
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *lines])


def limit_table(rows: dict[str, Any]) -> str:
    head = ["row", "limit (C)", "Odradek", "of the limit", "prototype", "of the prototype"]
    head += ["CPU per request", "prototype's", "of the prototype", "CPU per GB", "others, cores", "measured"]
    lines = [limit_line(row, rows[row.key]) for row in ROWS if row.prototype and row.key in rows]
    return table(head, [line for line in lines if line])


def limit_line(row: Row, found: dict[str, Any]) -> list[str]:
    medians: Medians = found["median"]
    ours, limit, past = medians.get("odradek"), medians.get("limit"), row.prototype
    if ours is None or past is None:
        return []
    speed = throughput(row, ours)
    share_of_limit = f"{speed / throughput(row, limit):.2f}" if limit else ""
    if limit and past.throughput and past.limit_then:
        share_of_limit += f" (then {past.throughput / past.limit_then:.2f})"
    past_us = past.cpu_us_per_request or (past.cpu_s_per_gb or 0) * ours["batch_bytes"] / 1000
    return [
        row.title,
        f"{throughput(row, limit):,.0f} {row.unit}" if limit else "",
        f"{speed:,.0f} {row.unit}",
        share_of_limit,
        f"{past.throughput:,.0f} {row.unit}" if past.throughput else "",
        f"{100 * speed / past.throughput:.0f} %" if past.throughput else "",
        f"{ours['cpu_us_per_request']:.1f} µs",
        f"{past_us:.1f} µs",
        f"{100 * past_us / ours['cpu_us_per_request']:.0f} %",
        f"{ours['cpu_s_per_gb']:.2f} s" if row.batch_bytes else "",
        f"{ours['foreign_cores']:.2f}",
        found["taken"],
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One line: the results of Odradek and Apache Kafka. With a `ratio` above 1, Odradek is better."""

    title: str
    ours: str
    theirs: str
    ratio: float
    cpu: str = ""
    their_cpu: str = ""
    cpu_ratio: float | None = None
    others: str = ""
    taken: str


def kafka_table(lines: list[Comparison]) -> str:
    head = ["row", "Odradek", "Apache Kafka", "ratio", "server CPU", "Kafka's", "ratio", "others, cores", "measured"]
    return table(
        head,
        [
            [
                *(line.title, line.ours, line.theirs, times(line.ratio), line.cpu, line.their_cpu),
                "" if line.cpu_ratio is None else times(line.cpu_ratio),
                line.others,
                line.taken,
            ]
            for line in lines
        ],
    )


def alone(rows: dict[str, Any]) -> Iterator[Comparison]:
    for row in ROWS:
        if row.nodes == 1:
            yield from comparisons(row, rows)
    yield from lower_is_better("start to first acknowledged record", rows.get("start"), "start_s", "s")
    yield from lower_is_better("resident memory, idle", rows.get("memory-idle"), "mb", "MB")
    yield from lower_is_better("resident memory, the most under load", rows.get("memory-loaded"), "mb", "MB")


def clusters(rows: dict[str, Any]) -> Iterator[Comparison]:
    for row in ROWS:
        if row.nodes > 1:
            yield from comparisons(row, rows)


def comparisons(row: Row, rows: dict[str, Any]) -> Iterator[Comparison]:
    found = rows.get(row.key)
    if found is None or not {"odradek", "kafka"} <= found["median"].keys():
        return
    if row.unit == "s":
        yield from lower_is_better(row.title, found, "gap_s", "s")
        return
    ours, theirs = found["median"]["odradek"], found["median"]["kafka"]
    by_bytes = row.unit in ("MB/s", "records/s")
    cost, unit = ("cpu_s_per_gb", "s per GB") if by_bytes else ("cpu_us_per_request", "ms per 1,000 requests")
    measured: dict[str, Any] = {
        "cpu": f"{ours[cost]:.2f} {unit}",
        "their_cpu": f"{theirs[cost]:.2f}",
        "cpu_ratio": theirs[cost] / ours[cost],
        "others": ", ".join(f"{one['foreign_cores']:.2f}" for one in (ours, theirs) if "foreign_cores" in one),
    }
    if row.unit == "ms":
        for name, field in (("p50", "p50_us"), ("p99", "p99_us"), ("p99.9", "p999_us")):
            for line in lower_is_better(f"{row.title}, {name}", found, field, "ms", 1000):
                yield replace(line, **measured) if name == "p50" else line
        return
    speed, their_speed = throughput(row, ours), throughput(row, theirs)
    mark = CLIENT_MARK if ours.get("client_waits", 1) < CLIENT_IS_BUSY else ""
    yield Comparison(
        title=row.title + mark,
        ours=f"{speed:,.0f} {row.unit}" + records(row, ours),
        theirs=f"{their_speed:,.0f}" + records(row, theirs),
        ratio=speed / their_speed,
        **measured,
        taken=found["taken"],
    )
    if row.mode == "transactions":
        for name in ("p50", "p99"):
            yield from lower_is_better(f"the same, time of a commit, {name}", found, f"commit_{name}_us", "ms", 1000)


def records(row: Row, median: dict[str, float]) -> str:
    """Megabytes, as a number of records."""
    return f", {median['records_per_s'] / 1e6:.2f} M records/s" if row.unit == "MB/s" else ""


def lower_is_better(
    title: str, found: dict[str, Any] | None, field: str, unit: str, scale: float = 1
) -> Iterator[Comparison]:
    medians = [found["median"].get(name, {}) for name in ("odradek", "kafka")] if found else []
    if found is None or any(field not in median for median in medians):
        return
    ours, theirs = (median[field] / scale for median in medians)
    digits = {"s": 2, "MB": 0, "ms": 3}[unit]
    yield Comparison(
        title=title,
        ours=f"{ours:.{digits}f} {unit}",
        theirs=f"{theirs:.{digits}f}",
        ratio=theirs / ours,
        taken=found["taken"],
    )


def times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio >= 1 else f"**{ratio:.2f}**"


def svg(results: dict[str, Any]) -> str:
    """Bars of the ratios to Apache Kafka, on a logarithmic scale. Right of the line, Odradek is better."""
    bars = [(line.title, line.ratio) for kind in (alone, clusters) for line in kind(results["rows"])]
    left, step, width = 430, 22, 900
    reach = max([2.0, *(max(ratio, 1 / ratio) for _, ratio in bars)])
    scale = (width - left - 60) / 2 / math.log(reach)
    middle = left + (width - left - 60) / 2
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{step * (len(bars) + 2)}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{middle}" y="15" text-anchor="middle">how much better than Apache Kafka (logarithmic)</text>',
    ]
    for number, (title, ratio) in enumerate(bars, 1):
        top, length = number * step + 4, abs(math.log(ratio)) * scale
        start = middle if ratio >= 1 else middle - length
        colour = "#2a7f62" if ratio >= 1 else "#b5493a"
        out.append(f'<text x="{left - 10}" y="{top + 12}" text-anchor="end">{title}</text>')
        out.append(
            f'<rect x="{start:.1f}" y="{top}" width="{max(length, 1):.1f}" height="{step - 6}" fill="{colour}"/>'
        )
        label = middle + length + 4 if ratio >= 1 else middle + 4
        out.append(f'<text x="{label:.1f}" y="{top + 12}">{ratio:.2f}</text>')
    out.append(f'<line x1="{middle}" x2="{middle}" y1="{step}" y2="{step * (len(bars) + 1)}" stroke="black"/></svg>')
    return "\n".join(out) + "\n"


def scale(told: dict[str, Any]) -> str:
    """The results of `bench/scale.py`."""
    lines = [
        [f"{name}: {key.replace('_', ' ')}", f"{value:,g}", one["taken"]]
        for name, one in told.items()
        for key, value in one["figures"].items()
    ]
    return "### Scale\n\n" + table(["measure", "figure", "measured"], lines) + "\n"


def write_part(begin: str, end: str, text: str) -> None:
    """Replaces the text between two marks of docs/performance.md."""
    page = DOCS / "performance.md"
    before, rest = page.read_text().split(begin)
    page.write_text(f"{before}{begin}\n\n{text.strip()}\n\n{end}{rest.split(end)[1]}")


def write_docs(results: dict[str, Any]) -> None:
    """Replaces the text between the two marks of docs/performance.md."""
    page = DOCS / "performance.md"
    text = page.read_text()
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    plot = "![ratios to Apache Kafka](performance.svg)"
    page.write_text(f"{before}\n\n{markdown(results)}\n{plot}\n\n{scale(results['scale'])}\n{after}")
    (DOCS / "performance.svg").write_text(svg(results))
