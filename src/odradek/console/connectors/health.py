"""Problems of connectors for the overview, and what has happened to them. Without I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import quote

from odradek.console.collecting.snapshot import BEHIND_S, Event, EventKind
from odradek.console.connectors.seen import AT_REST, FAILED, RUNNING, Connect, Connector, Service
from odradek.console.finding import Finding, Level, few
from odradek.console.words import counted
from odradek.monitor.lag.evaluation import Status
from odradek.watch.watched_cluster import now_ms

REPAIR = "Repair the cause, then restart what has failed on the connector's page"


def findings(value: object) -> Iterator[Finding]:
    """`value` is a Connect."""
    if not isinstance(value, Connect):
        return
    for service in value.services:
        if service.problem:
            yield _silent(service, value)
    silent = {service.key for service in value.services if service.problem}
    known = [each for each in value.connectors if each.service not in silent]
    failed = [each for each in known if each.state == FAILED or each.failed]
    yield from _few([_failed(each) for each in failed], "connector has failed", "connectors have failed")
    others = [found for each in known if each not in failed for found in _of(each)]
    yield from _few(others, "connector has a problem", "connectors have problems")


def path_of(connector: Connector) -> str:
    return f"/connect/{quote(connector.service, safe='')}/{quote(connector.name, safe='')}"


def _silent(service: Service, value: Connect) -> Finding:
    count = sum(each.service == service.key for each in value.connectors)
    number = "Its connector has" if count == 1 else f"Its {count} connectors have"
    alone = all(each.problem for each in value.services)
    start = f"Start the connect service at {service.url} again"
    return Finding(
        level=Level.BAD if alone and count and not service.is_default else Level.WARN,
        what=f"Connect at {service.key} cannot be asked",
        why=service.problem + (f". {number} probably stopped, too" if count and alone else ""),
        step=f"{start}, or restart the console if it is no longer needed" if service.is_default else start,
        path="/connect",
        command="odradek connect serve" if service.is_default else "",
        explains=frozenset(each.group for each in value.connectors if each.service == service.key),
    )


def _failed(each: Connector) -> Finding:
    if each.state == FAILED:
        what = f"Connector {each.name} has failed"
    elif len(each.tasks) == 1:
        what = f"Connector {each.name} has failed: its only task has stopped"
    else:
        what = f"Connector {each.name} has failed in {len(each.failed)} of {len(each.tasks)} tasks"
    return Finding(
        level=Level.BAD,
        what=what,
        why=f"{_sentence(each.cause) or 'It does not say why'}{_waiting(each)}",
        step=REPAIR,
        path=path_of(each),
        explains=frozenset([each.group]),
    )


def _of(each: Connector) -> Iterator[Finding]:
    """At most one problem of a connector that has not failed: the first that applies."""
    path = path_of(each)
    if each.is_restarting:
        yield Finding(
            level=Level.WARN,
            what=f"Connector {each.name} fails, and is started again",
            why=f"{_sentence(each.cause)}{_waiting(each)}",
            step="If it does not recover, repair the cause; its page has the whole error",
            path=path,
            explains=frozenset([each.group]),
        )
    elif each.state in AT_REST and each.lag and each.seconds_behind >= BEHIND_S:
        yield Finding(
            level=Level.WARN,
            what=f"Connector {each.name} is {each.state.lower()}, and records wait",
            why=f"Somebody has {each.state.lower()} it. It is {counted(each.lag, 'record')} behind",
            step="Resume it on its page, or delete it if nobody needs it any more",
            path=path,
            explains=frozenset([each.group]),
        )
    elif each.state == RUNNING and each.rule is not Status.OK:
        yield Finding(
            level=Level.WARN,
            what=f"Connector {each.name} is falling behind",
            why=f"Its tasks run, but records arrive faster than it writes them ({each.rule.name}){_waiting(each)}",
            step="Make the target faster, or raise tasks.max up to the number of partitions of its topics",
            path=path,
            explains=frozenset([each.group]),
        )
    elif each.newly_skipped:
        letters = f". See the topic {each.dead_letter_topic}" if each.dead_letter_topic else ""
        yield Finding(
            level=Level.WARN,
            what=f"Connector {each.name} leaves records out",
            why=f"{counted(each.newly_skipped, 'record')} could not be processed in the last five minutes{letters}",
            step="Look at the reasons, repair the records or the config, and write the records again",
            path=f"{path}?tab=letters",
        )


def _few(found: Sequence[Finding], one: str, several: str) -> Iterator[Finding]:
    return few(
        found,
        lambda left: counted(left, f"more {one}", f"more {several}"),
        step="Look at the list of connectors",
        path="/connect?show=problems",
    )


def _waiting(each: Connector) -> str:
    return f". {counted(each.lag, 'record waits', 'records wait')}" if each.lag else ""


def _sentence(text: str) -> str:
    return text.rstrip(".")


def events(before: object, now: object) -> Iterator[Event]:
    """From one Connect to the next."""
    if not isinstance(before, Connect) or not isinstance(now, Connect):
        return
    at_ms = now_ms()
    known = {(each.service, each.name): each for each in before.connectors}
    # What a service has that did not answer before is not new.
    asked = {service.key for service in before.services if not service.problem}
    for each in now.connectors:
        was = known.pop((each.service, each.name), None)
        told = _changed(was, each) if was is not None or each.service in asked else None
        if told is not None:
            level, text = told
            yield Event(at_ms=at_ms, kind=EventKind.CONNECTOR, level=level, text=text, path=path_of(each))
    for service, name in known:
        if (seen := now.service(service)) is not None and not seen.problem:
            text = f"Connector {name} was deleted"
            yield Event(at_ms=at_ms, kind=EventKind.CONNECTOR, level="info", text=text, path="/connect")


def _changed(was: Connector | None, now: Connector) -> tuple[str, str] | None:
    if was is None:
        return "info", f"Connector {now.name} was created"
    if was.shown_state == now.shown_state:
        return None
    if now.shown_state == FAILED:
        return "bad", f"Connector {now.name} has failed: {now.cause}".rstrip(": ")
    if now.shown_state == RUNNING:
        return "good", f"Connector {now.name} runs"
    if now.shown_state in AT_REST:
        return "info", f"Connector {now.name} is {now.shown_state.lower()}"
    return ("warn", f"Connector {now.name} fails, and is started again") if now.is_restarting else None
