"""Problems of Streams applications for the overview, and what has happened to them. Without I/O."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from odradek.console.applications.seen import Application, Applications, Query, State
from odradek.console.collecting.snapshot import BEHIND_S, Event, EventKind
from odradek.console.finding import Finding, Level, few
from odradek.console.rendering import duration
from odradek.console.words import counted
from odradek.monitor.lag.evaluation import Status
from odradek.watch.watched_cluster import now_ms

FASTER = (
    "Make its slow functions faster, give the application more cores, or its topics more partitions; "
    "its page shows which part of a micro-batch takes the time"
)

AGAIN = "Run it again, and it continues where it stopped. If nobody needs it any more: odradek streams reset"


def findings(value: object) -> Iterator[Finding]:
    """`value` is an Applications."""
    if not isinstance(value, Applications):
        return
    found = sorted((each for app in value.known for each in _of(app)), key=lambda each: -each.level)
    yield from few(
        found,
        lambda left: f"{counted(left, 'more problem')} of applications",
        step="Look at the list of applications",
        path="/streams?show=problems",
    )


def path_of(app: Application) -> str:
    return f"/streams/{quote(app.name, safe='')}"


def _of(app: Application) -> Iterator[Finding]:
    path = path_of(app)
    if app.state is State.FAILED:
        failed = [query.name for query in app.queries if query.record.state == "failed"]
        which = f": query {failed[0]}" if len(failed) == 1 else f": {len(failed)} queries"
        yield Finding(
            level=Level.BAD,
            what=f"Application {app.name} has failed{which}",
            why=f"{app.cause.rstrip('.') or 'It does not say why'}{_waiting(app)}",
            step="Repair the cause, then run it again: it continues where it stopped",
            path=path,
            command="odradek streams run",
            explains=frozenset(app.groups),
        )
    elif app.state is State.SILENT:
        yield Finding(
            level=Level.BAD,
            what=f"Application {app.name} gives no sign of life",
            why=f"It ran on {app.announced.host}, process {app.announced.pid}, and was last seen "
            f"{duration(app.silent_s)} ago: it was killed, or cannot reach the cluster{_waiting(app)}",
            step=AGAIN,
            path=path,
            command="odradek streams run",
            explains=frozenset(app.groups),
        )
    elif app.state is State.STOPPED:
        if app.lag and app.seconds_behind >= BEHIND_S:
            yield Finding(
                level=Level.WARN,
                what=f"Application {app.name} is stopped, and records wait",
                why=f"Somebody has stopped it{_waiting(app)}",
                step=AGAIN,
                path=path,
                explains=frozenset(app.groups),
            )
    elif app.state is State.STARTING:
        if app.lag and app.seconds_behind >= BEHIND_S:
            yield Finding(
                level=Level.WARN,
                what=f"Application {app.name} is starting, and records wait",
                why=f"Its first micro-batch is not done yet{_waiting(app)}",
                step="Wait for it. If the lag does not shrink within minutes, read the log of the application",
                path=path,
                explains=frozenset(app.groups),
            )
    else:
        for query in app.queries:
            yield from _slow(app, query)
    yield from _letters(app)


def _slow(app: Application, query: Query) -> Iterator[Finding]:
    pipeline = f"{app.name}.{query.name}"
    warning = query.record.warning
    if warning is None and query.rule is Status.OK:
        return
    why = warning or f"It runs, but more records arrive than it processes ({query.rule.name})"
    behind = f". {counted(query.lag, 'record waits', 'records wait')}" if query.lag else ""
    behind += f", the oldest for {duration(query.seconds_behind)}" if query.lag and query.seconds_behind else ""
    yield Finding(
        level=Level.WARN,
        what=f"Pipeline {pipeline} cannot keep up" if warning else f"Pipeline {pipeline} is falling behind",
        why=why.rstrip(".") + behind,
        step=FASTER,
        path=path_of(app),
        explains=frozenset([query.about.group]),
    )


def _letters(app: Application) -> Iterator[Finding]:
    for each in app.letters:
        if each.new and app.is_running:
            yield Finding(
                level=Level.WARN,
                what=f"Application {app.name} could not process some records",
                why=f"About {counted(each.new, 'record was', 'records were')} written to {each.topic} in the last five "
                "minutes",
                step="Look at their reasons, then correct the producer or the schema of the application",
                path=f"/topics/{quote(each.topic, safe='')}",
            )


def _waiting(app: Application) -> str:
    return f". {counted(app.lag, 'record waits', 'records wait')}" if app.lag else ""


def events(before: object, now: object) -> Iterator[Event]:
    """From one reading to the next."""
    if not isinstance(before, Applications) or not isinstance(now, Applications):
        return
    at_ms = now_ms()
    for app in now.known:
        was = before.named(app.name)
        if was is not None and was.state is app.state:
            continue
        level = app.tone or "info"
        text = f"Application {app.name}: {app.state}"
        if app.state is State.FAILED and app.cause:
            text = f"Application {app.name} has failed: {app.cause}"
        yield Event(at_ms=at_ms, kind=EventKind.APPLICATION, level=level, text=text, path=path_of(app))
