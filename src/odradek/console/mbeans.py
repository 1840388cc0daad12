"""The MBeans of a node, by Jolokia's protocol: a tree as in JConsole, and the most important figures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from odradek.console.collecting.node_figures import NodeUnreachable, jolokia
from odradek.console.frame import Refused
from odradek.monitor.catalogue import all_metrics

BEANS_MAX = 500
REQUESTS = ("Produce", "FetchConsumer", "FetchFollower", "Metadata", "OffsetCommit", "ListOffsets")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    name: str
    value: str
    is_number: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Domains, the types of the open one, the beans of the open type, and the attributes of the open bean."""

    domains: Sequence[tuple[str, int]]
    domain: str
    types: Sequence[tuple[str, int]]
    type: str
    beans: Sequence[str]
    beans_left_out: int
    mbean: str
    attributes: Sequence[Attribute]
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFigures:
    request: str
    per_s: float | None
    median_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    gauges: Sequence[tuple[str, float | None, str]]
    requests: Sequence[RequestFigures]


def tree(url: str, domain: str, kind: str, mbean: str, q: str) -> Tree:
    """Raises Refused."""
    names = sorted(_strings(_asked(url, {"type": "search", "mbean": "*:*"})))
    words = q.lower().split()
    found = [name for name in names if all(word in name.lower() for word in words)]
    domains = _counted(_domain(name) for name in found)
    if words and found and domain not in dict(domains):
        domain = _domain(found[0])
    domain = domain or ("kafka.server" if "kafka.server" in dict(domains) else domains[0][0] if domains else "")
    inside = [name for name in found if _domain(name) == domain]
    types = _counted(map(_type, inside))
    if mbean in inside:
        kind = _type(mbean)
    kind = kind if kind in dict(types) else (types[0][0] if words and types else "")
    beans = [name for name in inside if _type(name) == kind]
    return Tree(
        domains=domains,
        domain=domain,
        types=types,
        type=kind,
        beans=beans[:BEANS_MAX],
        beans_left_out=max(len(beans) - BEANS_MAX, 0),
        mbean=mbean if mbean in names else "",
        attributes=list(_attributes(url, mbean)) if mbean in names else [],
        description=_description(mbean),
    )


def metrics(url: str) -> Metrics:
    """Raises Refused."""
    reads = [name for _, name, _ in GAUGES]
    for request in REQUESTS:
        reads.append(f"kafka.network:type=RequestMetrics,name=TotalTimeMs,request={request}")
        reads.append(f"kafka.network:type=RequestMetrics,name=RequestsPerSec,request={request},version=*")
    answers = _asked_all(url, [{"type": "read", "mbean": name} for name in reads])
    values = answers[: len(GAUGES)]
    gauges = [
        (title, _value(value, "Value", "Count", "ResidentBytes"), unit)
        for (title, _, unit), value in zip(GAUGES, values, strict=True)
    ]
    times = answers[len(GAUGES) :]
    return Metrics(
        gauges=gauges,
        requests=[
            RequestFigures(
                request=request,
                per_s=_sum_of_rates(times[2 * number + 1]),
                median_ms=_value(times[2 * number], "50thPercentile"),
                p99_ms=_value(times[2 * number], "99thPercentile"),
            )
            for number, request in enumerate(REQUESTS)
            if isinstance(times[2 * number], dict)
        ],
    )


GAUGES = (
    ("Under-replicated partitions", "kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions", ""),
    ("Under min.insync.replicas", "kafka.server:type=ReplicaManager,name=UnderMinIsrPartitionCount", ""),
    ("Replicas offline", "kafka.server:type=ReplicaManager,name=OfflineReplicaCount", ""),
    ("ISR shrinks since the start", "kafka.server:type=ReplicaManager,name=IsrShrinksPerSec", ""),
    ("Failed produce requests", "kafka.server:type=BrokerTopicMetrics,name=FailedProduceRequestsPerSec", ""),
    ("Memory", "odradek.process:type=Memory", "bytes"),
)


def _asked(url: str, request: Mapping[str, str]) -> object:
    return _asked_all(url, [request])[0]


def _asked_all(url: str, requests: Sequence[Mapping[str, str]]) -> list[object]:
    try:
        answers = jolokia(url, requests)
    except NodeUnreachable as silent:
        raise Refused("The metrics of this broker cannot be read", str(silent)) from silent
    if not isinstance(answers, list) or len(answers) != len(requests):
        raise Refused("The metrics of this broker cannot be read", f"{url} is not Jolokia")
    return [each.get("value") if isinstance(each, dict) else None for each in answers]


def _attributes(url: str, mbean: str) -> Iterator[Attribute]:
    found = _asked(url, {"type": "read", "mbean": mbean})
    for name, value in sorted(found.items()) if isinstance(found, dict) else ():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        yield Attribute(
            name=name,
            value=f"{value:,.6g}" if isinstance(value, float) else f"{value:,}" if is_number else str(value),
            is_number=is_number,
        )


def _description(mbean: str) -> str:
    """From the declarations of our own metrics."""
    bare = re.sub(r"=([^,]*)", "", mbean)
    for metric in all_metrics():
        declared = metric.mbean
        if declared and (
            declared == mbean or (re.sub(r"=([^,]*)", "", declared) == bare and _same_name(declared, mbean))
        ):
            return metric.help
    return ""


def _same_name(declared: str, mbean: str) -> bool:
    def part(text: str, key: str) -> str:
        found = re.search(rf"[:,]{key}=([^,]*)", text)
        return found[1] if found else ""

    return all(part(declared, key) in (part(mbean, key), "…") for key in ("type", "name")) and _domain(
        declared
    ) == _domain(mbean)


def _domain(name: str) -> str:
    return name.partition(":")[0]


def _type(name: str) -> str:
    found = re.search(r"[:,]type=([^,]*)", name)
    return found[1] if found else ""


def _counted(names: object) -> list[tuple[str, int]]:
    counts: dict[str, int] = {}
    for name in names:  # type: ignore[attr-defined]
        counts[name] = counts.get(name, 0) + 1
    return sorted(counts.items())


def _strings(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _value(attributes: object, *names: str) -> float | None:
    for name in names:
        value = attributes.get(name) if isinstance(attributes, dict) else None
        if isinstance(value, int | float):
            return float(value)
    return None


def _sum_of_rates(beans: object) -> float | None:
    if not isinstance(beans, dict):
        return None
    return sum(rate for each in beans.values() if (rate := _value(each, "OneMinuteRate")) is not None)
