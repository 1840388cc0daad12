"""Brokers: the list, and one broker with its disks, configs, metrics and MBeans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from odradek.client.wire import NoAnswer
from odradek.console.collecting.cluster import Cluster
from odradek.console.collecting.snapshot import Broker, Snapshot
from odradek.console.configs import Config, Kind, change_config, read_configs
from odradek.console.frame import Console, Page, Refused, not_found
from odradek.console.listing import Listing
from odradek.console.mbeans import Metrics, Tree, metrics, tree
from odradek.console.pages.overview import disk_tone
from odradek.protocol.messages.p35_describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse

TABS = (("", "Disks"), ("configs", "Configuration"), ("metrics", "Metrics"), ("mbeans", "MBeans"))
CONFIGS_PER_PAGE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """The log of one partition on this broker."""

    topic: str
    partition: int
    directory: str
    bytes: int
    lag: int  # behind the high watermark; -1: its log has failed
    is_leader: bool


def _routes(console: Console) -> Sequence[BaseRoute]:
    def brokers(request: Request) -> Response:
        snapshot = console.snapshot
        found = Listing(
            request,
            snapshot.brokers,
            columns={
                "broker": lambda each: each.broker_id,
                "state": lambda each: each.is_alive,
                "disk": lambda each: each.bytes_logs,
                "leads": lambda each: each.leads,
                "replicas": lambda each: each.replicas,
                "in": lambda each: each.in_per_s,
                "out": lambda each: each.out_per_s,
                "memory": lambda each: each.node.resident_bytes if each.node else None,
            },
            down=("disk", "leads", "replicas", "in", "out", "memory"),
            found_in=lambda each: f"{each.broker_id} {each.address} {each.rack or ''}",
        )
        return console.page(
            request,
            "brokers.html",
            title="Brokers",
            list=found,
            trends={each.broker_id: console.trend(f"in/{each.broker_id}") for each in found.rows},
            disk_tone=disk_tone,
            skew=_skew(snapshot),
            has_racks=any(each.rack for each in snapshot.brokers),
        )

    def broker(request: Request) -> Response:
        return _shown(console, request)

    async def changed(request: Request) -> Response:
        form = await console.form(request)
        return await run_in_threadpool(_change, console, request.path_params["broker"], form)

    one = "/brokers/{broker:int}"
    return [Route("/brokers", brokers), Route(one, broker), Route(one, changed, methods=["POST"])]


def _skew(snapshot: Snapshot) -> dict[int, float]:
    """How many more partitions each broker leads than the average, as a share of it."""
    alive = [each for each in snapshot.brokers if each.is_alive]
    mean = sum(each.leads for each in alive) / len(alive) if alive else 0.0
    return {each.broker_id: each.leads / mean - 1 for each in alive} if mean else {}


def _shown(console: Console, request: Request) -> Response:
    number: int = request.path_params["broker"]
    broker = console.snapshot.broker(number)
    if broker is None:
        raise not_found("broker", str(number), "the list of brokers shows all registered brokers")
    tab = request.query_params.get("tab", "")
    tab = tab if tab in dict(TABS) else ""
    model: dict[str, Any] = {"problem": ""}
    try:
        if tab == "configs":
            model |= _configs(console, request, broker)
        elif tab == "metrics":
            model["metrics"] = _metrics(console, broker)
        elif tab == "mbeans":
            model["tree"] = _tree(console, broker, request)
        else:
            model["list"] = _replicas(console, request, broker)
    except (Refused, NoAnswer) as failed:
        model["problem"] = str(failed)
    collector = console.collector
    return console.page(
        request,
        "broker.html",
        title=f"Broker {number}",
        broker=broker,
        findings=[each for each in console.verdict().findings if each.path == f"/brokers/{number}"],
        tab=tab,
        tabs=[(name, text, console.to("/brokers", number, tab=name)) for name, text in TABS],
        form_to=console.to("/brokers", number),
        disk_tone=disk_tone,
        traffic=[("in", collector.history.points(f"in/{number}")), ("out", collector.history.points(f"out/{number}"))],
        **model,
    )


def _replicas(console: Console, request: Request, broker: Broker) -> Listing[Replica]:
    """Raises NoAnswer."""
    return Listing(
        request,
        list(_read_replicas(console.cluster, broker, console.snapshot)),
        columns={
            "partition": lambda each: (each.topic, each.partition),
            "size": lambda each: each.bytes,
            "lag": lambda each: each.lag,
            "role": lambda each: each.is_leader,
        },
        down=("size", "lag"),
        sort="size",
        found_in=lambda each: f"{each.topic} {each.topic}-{each.partition}",
    )


def _read_replicas(cluster: Cluster, broker: Broker, snapshot: Snapshot) -> list[Replica]:
    answer = cluster.at(broker.broker_id, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
    led = {
        (name, partition.number)
        for name, topic in snapshot.topics.items()
        for partition in topic.partitions
        if partition.leader == broker.broker_id
    }
    return [
        Replica(
            topic=topic.name,
            partition=each.partition_index,
            directory=result.log_dir,
            bytes=each.partition_size,
            lag=each.offset_lag,
            is_leader=(topic.name, each.partition_index) in led,
        )
        for result in answer.results
        for topic in result.topics
        for each in topic.partitions
    ]


def _configs(console: Console, request: Request, broker: Broker) -> dict[str, object]:
    """Raises Refused."""
    known = read_configs(console.cluster, Kind.BROKER, str(broker.broker_id))
    edited = next((each for each in known if each.name == request.query_params.get("edit")), None)
    if request.query_params.get("show") == "set":
        known = [each for each in known if not each.is_default]
    return {"list": listed_configs(request, known), "edited": edited}


def listed_configs(request: Request, known: Sequence[Config]) -> Listing[Config]:
    return Listing(
        request,
        known,
        columns={"name": lambda each: each.name, "source": lambda each: (each.is_default, each.source)},
        found_in=lambda each: f"{each.name} {each.value or ''} {each.source}",
        rows_per_page=CONFIGS_PER_PAGE,
    )


def _metrics(console: Console, broker: Broker) -> Metrics:
    """Raises Refused."""
    return metrics(_url(console, broker))


def _tree(console: Console, broker: Broker, request: Request) -> Tree:
    """Raises Refused."""
    said = request.query_params
    return tree(
        _url(console, broker), said.get("domain", ""), said.get("type", ""), said.get("mbean", ""), said.get("q", "")
    )


def _url(console: Console, broker: Broker) -> str:
    url = console.nodes.url(broker.broker_id)
    if url is None or broker.node is None:
        raise Refused(
            "The metrics of this broker cannot be read",
            f"its HTTP is unknown or does not answer; name it with --node-http {broker.broker_id}=http://HOST:PORT",
        )
    return url


def _change(console: Console, number: int, form: dict[str, str]) -> Response:
    key = form.get("key", "")
    here = console.to("/brokers", number, tab="configs")
    value = None if "remove" in form else form.get("value", "")
    for_all = form.get("scope") == "all"
    try:
        if for_all and value is not None:
            change_config(console.cluster, Kind.BROKER, str(number), key, value, for_all=True, dry_run=True)
        change_config(console.cluster, Kind.BROKER, str(number), key, value, for_all=for_all)
    except Refused as refused:
        return console.not_done(refused, f"{here}&edit={key}" if key.replace(".", "").isalnum() else here)
    whom = "all brokers" if for_all else f"broker {number}"
    told = f"{key} of {whom} is {value} now" if value is not None else f"{key} of {whom} was set back"
    return console.done(told, here)


PAGE = Page(
    name="brokers",
    title="Brokers",
    path="/brokers",
    icon="brokers",
    key="b",
    section="Cluster",
    routes=_routes,
    count=lambda snapshot: len(snapshot.brokers),
)
