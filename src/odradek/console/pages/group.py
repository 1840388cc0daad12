"""One consumer group: its status with the rule that fired, lag over time, partitions, members, and changing offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from odradek.client.admin import GroupState
from odradek.client.records import ClientError
from odradek.console import resetting
from odradek.console.collecting.collector import lag_figure
from odradek.console.frame import Console, not_found
from odradek.console.listing import Listing
from odradek.console.rendering import count, duration
from odradek.console.words import counted, plural
from odradek.monitor.lag.cluster_lag import GroupLag, PartitionLag
from odradek.monitor.lag.evaluation import Status
from odradek.monitor.lag.trend import trend
from odradek.watch.watched_cluster import now_ms

PATH = "/groups/{group:path}"
TABS = (("partitions", "Partitions"), ("members", "Members"), ("reset", "Reset offsets"))
TONES = {"OK": "good", "WARN": "warn", "ERR": "bad", "STOP": "bad", "STALL": "bad", "REWIND": "bad"}
CHART_TOPICS_MAX = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    lag: PartitionLag
    committed: int | None
    end: int | None
    member: str

    @property
    def window(self) -> list[float]:
        return [float(commit.lag) for commit in self.lag.commits if commit.lag is not None]

    @property
    def catch_up(self) -> str:
        if not self.lag.current_lag:
            return ""
        return "never" if self.lag.catch_up_s is None else duration(self.lag.catch_up_s)

    @property
    def trend(self) -> str:
        return trend(self.lag.current_lag, self.lag.per_second).value


def explanation(partition: PartitionLag, at_ms: int) -> str:
    """Why the partition has its status, with the figures of its window."""
    commits = partition.commits
    if not commits:
        return "The group has not committed an offset here"
    ago = duration((at_ms - commits[-1].timestamp_ms) / 1000)
    covered = duration((commits[-1].timestamp_ms - commits[0].timestamp_ms) / 1000)
    number = len(commits)
    return {
        Status.STOP: f"The last commit was {ago} ago, but the last {number} commits cover only {covered}",
        Status.STALL: f"The last {number} commits all have offset {count(commits[-1].offset)}",
        Status.REWIND: f"The committed offset went back to {count(commits[-1].offset)}, and has not recovered",
        Status.WARN: f"Lag did not decrease in any of the last {number} commits, from "
        f"{count(commits[0].lag)} to {count(commits[-1].lag)} {plural(commits[-1].lag or 0, 'record')}",
    }.get(partition.status, "The group keeps up: lag was zero, or it decreased, within the last commits")


def routes(console: Console) -> Sequence[BaseRoute]:
    def shown(request: Request) -> Response:
        return _Shown(console, request).page()

    async def changed(request: Request) -> Response:
        form = await console.form(request)
        return await run_in_threadpool(_change, console, request.path_params["group"], form)

    return [Route(PATH, shown), Route(PATH, changed, methods=["POST"])]


class _Shown:
    def __init__(self, console: Console, request: Request) -> None:
        self._console = console
        self._request = request
        self._name: str = request.path_params["group"]
        self._snapshot = console.snapshot
        self._lag = console.watched.evaluate(self._name) or GroupLag(group=self._name, partitions=[])
        self._known = self._snapshot.groups.get(self._name)

    def page(self) -> Response:
        try:
            state: GroupState | None = self._console.admin.group(self._name)
            problem = ""
        except ClientError as failed:
            state, problem = None, str(failed)
        if self._known is None and (state is None or state.state == "DEAD") and not self._lag.partitions:
            raise not_found("group", self._name, "the list of groups shows those there are")
        tab = self._request.query_params.get("tab", "partitions")
        tab = tab if tab in dict(TABS) else "partitions"
        worst = self._worst()
        rule = self._known.rule if self._known and self._known.lag else worst.status if worst else None
        model: dict[str, Any] = {
            "name": self._name,
            "group": self._known,
            "lag": self._lag,
            "state": state,
            "problem": problem,
            "worst": worst,
            "rule": rule,
            "explained": self._explained(worst, rule),
            "tones": TONES,
            "tab": tab,
            "tabs": [(name, self._text(name, text, state), self._to(name)) for name, text in TABS],
            "lines": self._lines(),
            "refusal": refusal(state),
        }
        if tab == "partitions":
            model["list"] = self._partitions(state)
        elif tab == "reset":
            model |= self._reset()
        return self._console.page(self._request, "group.html", title=self._name, **model)

    def _text(self, name: str, text: str, state: GroupState | None) -> str:
        if name == "members" and state is not None:
            return f"{text} ({len(state.members)})"
        return f"{text} ({len(self._lag.partitions)})" if name == "partitions" else text

    def _to(self, tab: str) -> str:
        return self._console.to("/groups", self._name, tab="" if tab == "partitions" else tab)

    def _worst(self) -> PartitionLag | None:
        return max(self._lag.partitions, key=lambda each: (each.status, each.current_lag), default=None)

    def _explained(self, worst: PartitionLag | None, rule: Status | None) -> str:
        if worst is None or rule is None:
            return ""
        if worst.status is Status.OK and self._known is not None and rule is not Status.OK:
            return f"Lag grew by {counted(self._known.growth or 0, 'record')} a second in the last minutes"
        return f"{worst.topic}-{worst.partition}: {explanation(worst, now_ms())}"

    def _lines(self) -> list[tuple[str, object]]:
        """Lag over time, of the topics with the largest lag."""
        by_topic: dict[str, int] = {}
        for each in self._lag.partitions:
            by_topic[each.topic] = by_topic.get(each.topic, 0) + each.current_lag
        topics = sorted(by_topic, key=lambda topic: -by_topic[topic])[:CHART_TOPICS_MAX]
        return [(topic, self._console.collector.history.points(lag_figure(self._name, topic))) for topic in topics]

    def _partitions(self, state: GroupState | None) -> Listing[Row]:
        owners = {place: member for member in (state.members if state else ()) for place in member.places}
        rows = []
        for each in self._lag.partitions:
            owner = owners.get((each.topic, each.partition))
            ends = self._snapshot.ends.get(each.topic, ())
            rows.append(
                Row(
                    lag=each,
                    committed=each.commits[-1].offset if each.commits else None,
                    end=ends[each.partition] if each.partition < len(ends) and ends[each.partition] >= 0 else None,
                    member=f"{owner.client_id} at {owner.host}" if owner else "",
                )
            )
        return Listing(
            self._request,
            rows,
            columns={
                "partition": lambda row: (row.lag.topic, row.lag.partition),
                "status": lambda row: row.lag.status,
                "lag": lambda row: row.lag.current_lag,
                "seconds": lambda row: row.lag.age.seconds,
                "committed": lambda row: row.committed,
                "end": lambda row: row.end,
                "member": lambda row: row.member,
            },
            down=("status", "lag", "seconds", "committed", "end"),
            found_in=lambda row: f"{row.lag.topic} {row.lag.partition} {row.member} {row.lag.status.name}",
        )

    # The wizard

    def _reset(self) -> dict[str, object]:
        said = self._request.query_params
        to, value, topic = said.get("to", ""), said.get("value", ""), said.get("topic", "")
        model: dict[str, Any] = {
            "to_": to,
            "value": value,
            "topic": topic,
            "moves": None,
            "wrong": "",
            "targets": "",
        }
        try:
            committed = self._console.admin.committed(self._name)
        except ClientError as failed:
            return model | {"topics": [], "wrong": str(failed)}
        model["topics"] = sorted(
            {name for name, _ in committed} | ({topic} if topic in self._snapshot.topics else set())
        )
        model["other_groups"] = sorted(self._snapshot.groups.keys() - {self._name})
        if to:
            try:
                found = preview(self._console, self._name, committed, topic, to, value)
                model |= {"moves": found, "targets": resetting.as_field(found)}
            except (resetting.BadTarget, ClientError) as wrong:
                model["wrong"] = str(wrong)
        return model


def preview(
    console: Console, group: str, committed: Mapping[resetting.Place, int], topic: str, to: str, value: str
) -> list[resetting.Move]:
    """Raises BadTarget and ClientError."""
    places = [place for place in committed if topic in ("", place[0])]
    if topic and not places and topic in console.snapshot.topics:
        places = [(topic, each.number) for each in console.snapshot.topics[topic].partitions]
    if not places:
        raise resetting.BadTarget(f"group {group} has committed no offsets; choose a topic")
    elsewhere: Mapping[resetting.Place, int] = {}
    if to == "time":
        elsewhere = console.admin.offsets_at(places, resetting.moment_ms(value))
    elif to == "group":
        elsewhere = console.admin.committed(value)
        if not elsewhere:
            raise resetting.BadTarget(f"group {value!r} has committed no offsets")
    offsets = resetting.Offsets(
        committed=committed,
        starts=console.admin.starts_of(places),
        ends=console.admin.ends_of(places),
        elsewhere=elsewhere,
    )
    return resetting.moves(places, to, value, offsets)


def refusal(state: GroupState | None) -> str:
    """Why offsets cannot be changed now; empty if they can."""
    if state is None:
        return "the group's coordinator does not answer"
    if not state.members:
        return ""
    members = "1 member" if len(state.members) == 1 else f"{len(state.members)} members"
    return f"the group has {members}. Stop its consumers first: they would commit their own offsets again"


def _change(console: Console, group: str, form: dict[str, str]) -> Response:
    here = console.to("/groups", group, tab="reset")
    try:
        if form.get("action") == "delete":
            console.admin.delete_group(group)
            console.watched.forget(group)
            return console.done(f"Group {group} was deleted", console.to("/groups"))
        targets = resetting.from_field(form.get("targets", ""))
        console.admin.set_committed(group, targets)
    except (resetting.BadTarget, ClientError) as refused:
        return console.not_done(refused, here)
    partitions = "1 partition" if len(targets) == 1 else f"{len(targets)} partitions"
    return console.done(f"The offsets of {partitions} were set", console.to("/groups", group))
