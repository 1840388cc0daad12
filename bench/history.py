"""The history of all measurements: one line of JSON per run in bench/history.jsonl. The docs show the newest.

The key `bench` names the benchmark, except for the benchmark of the broker.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

KEPT = Path(__file__).resolve().parent / "history.jsonl"


def entry(results: dict[str, Any]) -> dict[str, Any]:
    """The medians of a run, and its conditions."""
    rows = {key: rounded(row["median"]) for key, row in results["rows"].items()}
    return {"conditions": results["conditions"], "rows": rows, "failures": results["failures"]}


def rounded(medians: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    return {name: {key: float(f"{value:.6g}") for key, value in one.items()} for name, one in medians.items()}


def keep(taken: dict[str, Any]) -> None:
    with KEPT.open("a") as file:
        file.write(json.dumps(taken) + "\n")


def kept() -> list[dict[str, Any]]:
    return [json.loads(line) for line in KEPT.read_text().splitlines()]


def newest(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """The last figures of every row of the broker's benchmark, each with its day and commit."""
    entries = [one for one in entries if "bench" not in one]
    rows: dict[str, Any] = {}
    scale: dict[str, Any] = {}
    for one in entries:
        told = one["conditions"]
        taken = f"{told['date'][5:16]}, {told['commit'].split()[0]}"
        rows |= {key: {"taken": taken, "median": medians} for key, medians in one["rows"].items()}
        scale |= {key: {"taken": taken, "figures": figures} for key, figures in one.get("scale", {}).items()}
    last = entries[-1]
    return {"conditions": last["conditions"], "rows": rows, "scale": scale, "failures": last["failures"]}
