"""What the search over the whole cluster finds: pages, brokers, topics, groups, connectors, applications. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from odradek.console.applications.health import path_of as path_of_application
from odradek.console.applications.seen import applications_of
from odradek.console.collecting.snapshot import Snapshot
from odradek.console.connectors.health import path_of as path_of_connector
from odradek.console.connectors.seen import connect_of
from odradek.console.frame import Page, path_to

FOUND_MAX = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    kind: str
    name: str
    path: str  # without the prefix


def jump(text: str, snapshot: Snapshot, pages: Iterable[Page]) -> list[Place]:
    """Names that contain all words, in any order; a word may also be the kind: "topic ord". The best ones first."""
    words = text.lower().split()
    found = [
        each for each in _places(snapshot, pages) if all(word in f"{each.kind} {each.name}".lower() for word in words)
    ]
    # The words before the last one may be the kind.
    beginnings = (" ".join(words), *words[-1:])
    found.sort(key=lambda each: (not each.name.lower().startswith(beginnings), len(each.name) if words else 0))
    return found[:FOUND_MAX]


def _places(snapshot: Snapshot, pages: Iterable[Page]) -> Iterator[Place]:
    for page in pages:
        if page.is_there(snapshot):
            yield Place(kind="page", name=page.title, path=page.path)
    for broker in snapshot.brokers:
        yield Place(kind="broker", name=str(broker.broker_id), path=f"/brokers/{broker.broker_id}")
    for name in sorted(snapshot.topics):
        yield Place(kind="topic", name=name, path=path_to("/topics", name))
    for name in sorted(snapshot.groups):
        yield Place(kind="group", name=name, path=path_to("/groups", name))
    connect, applications = connect_of(snapshot), applications_of(snapshot)
    for connector in connect.connectors if connect is not None else ():
        yield Place(kind="connector", name=connector.name, path=path_of_connector(connector))
    for application in applications.known if applications is not None else ():
        yield Place(kind="application", name=application.name, path=path_of_application(application))
