"""The trucking application at growing rates, compared with the same application in Kafka Streams and Quix Streams.

    .venv/bin/python bench/streams_rates.py       about 45 minutes; `make bench` runs it last
    --check                                       only check that all systems write the same rows
    QUICK=1 …                                     one low rate, and a short run
    DOCS=1 …                                      also rewrites its part of docs/performance.md

One broker (`odradek up`), one machine, one system at a time, two partitions. The trucks send JSON as in the demo, one
position and one speed per second each; a higher rate is more trucks. Before the measurement, the rows of every system
are compared with rows computed in plain Python. Latency is measured from event time to the moment at which the broker
appended the result, or the marker of its transaction. `--systems 'Odradek,Odradek at least once'` measures what
transactions cost.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from typing import Any

import history
from conditions import conditions
from measure import DISTURBED_CORES
from native import OUT
from rate_run import LATENCIES, measured, records_sent, run
from report import table, write_part
from stream_systems import SYSTEMS, System
from trucking_rows import differences, events_between, expected, written

from odradek.demo.trucking import topics

CHECK_EVENTS_PER_S, CHECK_S, CHECK_WARM_S = 400, 45, 15
SUSTAINED_SHARES = (0.9, 0.75, 0.6)  # shares of the rate that a system processed when it fell behind
RATE_MAX = 100_000
DISTURBED = "†"
BEGIN, END = "<!-- streams: begin -->", "<!-- streams: end -->"
SHORT = {
    topics.DANGEROUS: "filter",
    topics.STATISTICS: "counts",
    topics.ENRICHED: "joins",
    topics.ALERTS: "windows",
}

Report = dict[str, float]


def truthy(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


def main() -> int:
    quick = truthy("QUICK")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", default="1000" if quick else "1000,10000,50000", help="events per second")
    parser.add_argument("--seconds", type=int, default=20 if quick else 60, help="seconds at each rate")
    parser.add_argument(
        "--warm", type=float, default=20 if quick else 60, help="seconds of warm-up before each, at 200 events/s"
    )
    parser.add_argument("--systems", default=",".join(system.name for system in SYSTEMS if system.is_usual))
    parser.add_argument("--check", action="store_true", help="only compare the rows, do not measure")
    parser.add_argument("--no-check", action="store_true")
    parser.add_argument("--no-search", action="store_true", help="only the given rates")
    parser.add_argument("--keep", action="store_true", help="add a line to bench/history.jsonl")
    parser.add_argument("--docs", action="store_true", default=truthy("DOCS"))
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that all started processes are stopped
    OUT.mkdir(exist_ok=True)
    systems = [system for system in SYSTEMS if system.name in options.systems.split(",")]
    if not options.no_check and not all(list(map(same_rows, systems))):
        return 1
    if options.check:
        return 0
    rates = [int(rate) for rate in options.rates.split(",")]
    results = {
        "conditions": conditions(),
        "versions": {system.name: system.version() for system in systems},
        "missing": {system.name: list(system.missing) for system in systems},
        "seconds": options.seconds,
        "rates": {system.name: of_system(system, rates, options) for system in systems},
    }
    (OUT / "streams.json").write_text(json.dumps(results, indent=1) + "\n")
    text = markdown(results)
    print(text)
    if options.keep:
        history.keep(kept(results))
    if options.docs:
        write_part(BEGIN, END, text)
    return 0


def same_rows(system: System) -> bool:
    """Rows of stream joins are compared only after the system has caught up with the events sent during its start."""
    print(f"{system.name} {system.version()}: comparing its rows", flush=True)
    done = run(system, CHECK_EVENTS_PER_S, CHECK_S, CHECK_WARM_S)
    rows = [*expected(records_sent(done, CHECK_EVENTS_PER_S, CHECK_S), done.drivers)]
    found, repeated = written(done.results)
    start = done.sent.start_ms
    wrong = differences(*(events_between(one, start, done.sent.end_ms) for one in (*rows, found)))
    at_start = differences(*(events_between(one, 0, start) for one in (*rows, found)))
    counts = ", ".join(f"{len(found[topic]):,} of {topic}" for topic in topics.OUTPUTS)
    print("\n".join(f"  {line}" for line in wrong) if wrong else f"  equal: {counts}")
    for line in at_start if not wrong else []:
        print(f"  only before it had caught up after its start: {line}")
    for topic, count in repeated.items():
        print(f"  {topic}: {count} rows were written more than once")
    return not wrong


def of_system(system: System, rates: list[int], options: argparse.Namespace) -> list[Report]:
    """The given rates, up to the first that is too high, and then the highest rate that the system sustains."""
    reports = []
    for rate in rates:
        reports.append(at_rate(system, rate, options))
        if not reports[-1]["keeps_up"]:
            break
    if not options.no_search:
        while reports[-1]["keeps_up"] and (higher := int(reports[-1]["asked_per_s"]) * 2) <= RATE_MAX:
            reports.append(at_rate(system, higher, options))
        if not reports[-1]["keeps_up"]:
            reports += reduced(system, reports, options)
    return reports


def reduced(system: System, reports: list[Report], options: argparse.Namespace) -> list[Report]:
    """Tries shares of the rate that a system processed when it fell behind, until it keeps up.

    It also stops at a rate that the system is known to sustain.
    """
    known = max((one["asked_per_s"] for one in reports if one["keeps_up"]), default=0.0)
    processed = reports[-1]["processed_per_s"]
    tried: list[Report] = []
    for share in SUSTAINED_SHARES:
        rate = round(processed * share, -2 if processed > 1000 else 0)
        if rate <= known or (tried and tried[-1]["keeps_up"]):
            break
        tried.append(at_rate(system, int(rate), options))
    return tried


def at_rate(system: System, rate: int, options: argparse.Namespace) -> Report:
    report = measured(run(system, rate, options.seconds, options.warm), rate, options.seconds)
    report["asked_per_s"] = rate
    print("  " + told(system.name, report), flush=True)
    return report


def told(name: str, report: Report) -> str:
    kept_up = "keeps up" if report["keeps_up"] else f"falls behind by {report['falls_behind']:.2f} s each second"
    return (
        f"{name}, {report['asked_per_s']:,.0f}/s: {kept_up}; joins {latency(report, topics.ENRICHED)} s; "
        f"{report['system_cores']:.2f} cores, others {report['others_cores']:.2f}; {report['rss_mb']:,.0f} MB; "
        f"generator late by {report['late_s']:.2f} s"
    )


# --- the report


def markdown(results: dict[str, Any]) -> str:
    said = results["conditions"]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    disturbed = any(is_disturbed(report) for reports in results["rates"].values() for report in reports)
    missing = [f"- {name}: {one}." for name, ones in results["missing"].items() for one in ones]
    return "\n\n".join(
        [
            f"`python bench/streams_rates.py`, {said['date']}, commit {said['commit']}; {said['machine']}; Java "
            f"{said['java']}; {versions}; {results['seconds']} s each, of which the last two thirds count.",
            "### At a rate\n\n" + rates_table(results["rates"]),
            "### The highest rate that was sustained\n\n" + sustained_table(results["rates"]),
            "### Odradek beside the others\n\n" + ratio_table(results["rates"]),
            "\n".join(["Not the same in every system:", "", *missing]) if missing else "",
            f"{DISTURBED} Others used more than {DISTURBED_CORES} cores meanwhile: measure it again."
            if disturbed
            else "",
        ]
    ).strip()


def rates_table(rates: dict[str, list[Report]]) -> str:
    head = ["events/s", "system", "keeps up"]
    head += [f"{SHORT[topic]} p50 / p99, s" for topic in LATENCIES] + [
        "cores",
        "broker's",
        "others'",
        "RSS / PSS, MB",
        "start, s",
    ]
    asked = sorted({report["asked_per_s"] for reports in rates.values() for report in reports})
    lines = [
        [
            f"{rate:,.0f}",
            name + (f" {DISTURBED}" if is_disturbed(report) else ""),
            "yes" if report["keeps_up"] else f"no: {report['processed_per_s']:,.0f}/s",
            *(latency(report, topic) for topic in LATENCIES),
            f"{report['system_cores']:.2f}",
            f"{report['broker_cores']:.2f}",
            f"{report['others_cores']:.2f}",
            f"{report['rss_mb']:,.0f} / {report['pss_mb']:,.0f}",
            f"{report['start_s']:.1f}",
        ]
        for rate in asked
        for name, reports in rates.items()
        for report in reports
        if report["asked_per_s"] == rate
    ]
    return table(head, lines)


def is_disturbed(report: Report) -> bool:
    return report["others_cores"] > DISTURBED_CORES


def latency(report: Report, topic: str) -> str:
    if f"{topic} p50_s" not in report:
        return "none in time"
    return f"{report[f'{topic} p50_s']:.2f} / {report[f'{topic} p99_s']:.2f}"


def sustained(reports: list[Report]) -> Report | None:
    return max((one for one in reports if one["keeps_up"]), key=lambda one: one["events_per_s"], default=None)


def sustained_table(rates: dict[str, list[Report]]) -> str:
    lines = []
    for name, reports in rates.items():
        best = sustained(reports)
        figures = (
            ["none", "", "", ""]
            if best is None
            else [
                f"{best['events_per_s']:,.0f}",
                f"{best['system_cores']:.2f}",
                f"{best['events_per_core_s']:,.0f}",
                latency(best, topics.ENRICHED),
            ]
        )
        lines.append([name, *figures])
    return table(["system", "events/s", "cores", "events/s per core", "joins p50 / p99, s"], lines)


def ratio_table(rates: dict[str, list[Report]]) -> str:
    """Above 1, Odradek is better. Latency, start and memory are at the lowest rate, which all systems ran."""
    ours, others = rates.get("Odradek"), {name: of for name, of in rates.items() if name != "Odradek"}
    if not ours or not others:
        return "nothing to compare"
    lower = {
        **{f"{SHORT[topic]} {p}": f"{topic} {p}_s" for topic in LATENCIES for p in ("p50", "p99")},
        "start to first results": "start_s",
        "memory, RSS": "rss_mb",
        "memory, PSS": "pss_mb",
        "cores": "system_cores",
    }
    lines = [
        [title, *(ratio(of[0].get(key), ours[0].get(key)) for of in others.values())] for title, key in lower.items()
    ]
    best = sustained(ours)
    for title, key in (("highest rate", "events_per_s"), ("events/s per core at that rate", "events_per_core_s")):
        bests = [sustained(of) for of in others.values()]
        lines.append([title, *(ratio(best and best[key], one and one[key]) for one in bests)])
    return table([f"at {ours[0]['asked_per_s']:,.0f} events/s", *others], lines)


def ratio(above: float | None, below: float | None) -> str:
    return f"{above / below:.2g}" if above and below else "none"


def kept(results: dict[str, Any]) -> dict[str, Any]:
    """A line of the history: a row for each rate, with the figures of each system."""
    rows: dict[str, dict[str, Report]] = {}
    for name, reports in results["rates"].items():
        for report in reports:
            key = f"streams-{report['asked_per_s']:.0f}"
            rows.setdefault(key, {})[name.lower().replace(" ", "-")] = report
    medians = {key: history.rounded(row) for key, row in rows.items()}
    told = {"bench": "streams", "conditions": results["conditions"], "versions": results["versions"]}
    return {**told, "rows": medians, "failures": []}


if __name__ == "__main__":
    sys.exit(main())
