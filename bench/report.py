"""Results as two tables and a picture."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

from native import OUT
from rows import ROWS, Row

DOCS = Path(__file__).resolve().parent.parent / "docs"
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
BY_KEY = {row.key: row for row in ROWS}

Medians = dict[str, dict[str, float]]


def figure(row: Row, median: dict[str, float]) -> str:
    if row.unit == "ms":
        return f"p50 {median['p50_us'] / 1000:.3f} p99 {median['p99_us'] / 1000:.3f} ms"
    return f"{throughput(row, median):,.0f} {row.unit}"


def throughput(row: Row, median: dict[str, float]) -> float:
    return median["mb_per_s"] if row.unit == "MB/s" else median["requests_per_s"]


def markdown(results: dict[str, Any]) -> str:
    told = results["conditions"]
    parts = [
        f"{told['date']}, commit {told['commit']}; {told['machine']}; Python {told['python']}; "
        f"Apache Kafka {told['kafka']} on Java {told['java']}.",
        "### Server-side speed, beside the raw limit and the prototype",
        limit_table(results["rows"]),
        "### Beside Apache Kafka",
        kafka_table(results),
    ]
    if results["failures"]:
        parts += ["### Failed", "\n".join(f"- {failure}" for failure in results["failures"])]
    return "\n\n".join(parts) + "\n"


def table(head: list[str], lines: list[list[str]]) -> str:
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *lines])


def limit_table(rows: dict[str, Any]) -> str:
    head = ["row", "limit (C)", "Odradek", "of the limit", "prototype", "of the prototype"]
    head += ["CPU per request", "prototype's", "of the prototype", "CPU per GB", "others, cores"]
    lines = [limit_line(BY_KEY[key], rows[key]["median"]) for key in rows if BY_KEY[key].prototype]
    return table(head, [line for line in lines if line])


def limit_line(row: Row, medians: Medians) -> list[str]:
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
    ]


def kafka_table(results: dict[str, Any]) -> str:
    head = ["row", "Odradek", "Apache Kafka", "ratio", "server CPU", "Kafka's", "ratio"]
    lines = [line for key, taken in results["rows"].items() for line in kafka_lines(BY_KEY[key], taken["median"])]
    starts, resident = results["start_s"], results["resident_mb"]
    if starts.get("odradek") and starts.get("kafka"):
        ours, theirs = (statistics.median(starts[name]) for name in ("odradek", "kafka"))
        lines.append(lower_is_better("start to first acknowledged record", ours, theirs, "s"))
    if "odradek" in resident and "kafka" in resident:
        for moment in ("idle", "loaded"):
            ours, theirs = (resident[name][moment] for name in ("odradek", "kafka"))
            lines.append(lower_is_better(f"resident memory, {moment}", ours, theirs, "MB"))
    return table(head, lines)


def lower_is_better(title: str, ours: float, theirs: float, unit: str) -> list[str]:
    digits = {"s": 2, "MB": 0, "ms": 3}[unit]
    return [title, f"{ours:.{digits}f} {unit}", f"{theirs:.{digits}f} {unit}", times(theirs / ours), "", "", ""]


def kafka_lines(row: Row, medians: Medians) -> list[list[str]]:
    ours, theirs = medians.get("odradek"), medians.get("kafka")
    if ours is None or theirs is None:
        return []
    cpu = "cpu_s_per_gb" if row.unit == "MB/s" else "cpu_us_per_request"
    unit = "s per GB" if row.unit == "MB/s" else "ms per 1,000 requests"
    costs = [f"{ours[cpu]:.2f} {unit}", f"{theirs[cpu]:.2f}", times(theirs[cpu] / ours[cpu])]
    if row.unit == "ms":
        lines = [
            lower_is_better(f"{row.title}, {name}", ours[field] / 1000, theirs[field] / 1000, "ms")
            for name, field in (("p50", "p50_us"), ("p99", "p99_us"))
        ]
        lines[0][4:] = costs
        return lines
    speed, their_speed = throughput(row, ours), throughput(row, theirs)
    return [[row.title, f"{speed:,.0f} {row.unit}", f"{their_speed:,.0f}", times(speed / their_speed), *costs]]


def times(ratio: float) -> str:
    """How much better Odradek is: above 1 it is ahead."""
    return f"{ratio:.2f}" if ratio >= 1 else f"**{ratio:.2f}**"


def svg(results: dict[str, Any]) -> str:
    """Bars of the ratios to Apache Kafka, on a logarithmic scale; right of the line Odradek is ahead."""
    lines = kafka_table(results).split("\n")[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    bars = [(cell[0], float(cell[3].strip("*"))) for cell in cells]
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


def scale() -> str:
    """What `bench/scale.py` last found, if it ran."""
    found = OUT / "scale.json"
    if not found.exists():
        return ""
    told: dict[str, dict[str, float]] = json.loads(found.read_text())
    lines = [
        [f"{name}: {key.replace('_', ' ')}", f"{value:,g}"] for name, one in told.items() for key, value in one.items()
    ]
    return "### Scale\n\n" + table(["measure", "figure"], lines) + "\n"


def write_docs(results: dict[str, Any]) -> None:
    """Replaces what stands between the two marks of docs/performance.md."""
    page = DOCS / "performance.md"
    text = page.read_text()
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    plot = "![ratios to Apache Kafka](performance.svg)"
    page.write_text(f"{before}\n\n{markdown(results)}\n{plot}\n\n{scale()}\n{after}")
    (DOCS / "performance.svg").write_text(svg(results))
