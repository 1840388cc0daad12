"""Beginning again: forget what an application has read, kept and derived for itself.

First a plan that names everything which would go; carrying it out is a second step. Topics that the application writes
for others are not its own and stay. Only names that are known to be this application's are touched, from its code,
its record and its directory: `fleet-` may also be the beginning of `fleet-east`'s topics.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from odradek.client.admin import Admin
from odradek.client.records import ClientError
from odradek.pipeline.layout import Layout, markers_of
from odradek.pipeline.lock import AppLock
from odradek.pipeline.recording import AppRecord
from odradek.streams.graph.graph import Graph
from odradek.streams.graph.planning import plan
from odradek.streams.graph.sinks import Materialize
from odradek.streams.run.announcing import forget
from odradek.streams.run.views.store import locked


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPlan:
    layout: Layout
    checkpoints: tuple[Path, ...]
    views: tuple[Path, ...]
    groups: tuple[str, ...]
    topics: tuple[str, ...]
    out_of_reach: tuple[str, ...]  # checkpoints that only Spark can reach: to be deleted by hand
    left_alone: tuple[str, ...]  # groups and topics that are named alike, and may be another application's

    @property
    def is_empty(self) -> bool:
        found = (self.checkpoints, self.views, self.groups, self.topics, self.out_of_reach)
        return not any(found) and not self.layout.status.exists()


def plan_reset(layout: Layout, cluster: Admin, graph: Graph | None = None) -> ResetPlan:
    """With the graph of the application also what it has never recorded here."""
    checkpoints = _folders(layout)
    record = AppRecord.read(layout.status)
    queries = {query.name for query in plan(graph)} if graph is not None else set()
    queries |= {path.name for path in checkpoints} | _names_of_earlier_versions(layout, record)
    wanted_groups = {layout.group(name) for name in queries}
    wanted_topics = {*(record.internal_topics if record else ())}
    wanted_topics |= (
        {node.topic for node in graph.nodes if isinstance(node, Materialize)} if graph is not None else set()
    )
    wanted_topics |= {layout.changelog(path.stem) for path in layout.folder.glob("@*/*.db")}
    groups = cluster.groups(layout.group_prefix)
    wanted_topics |= {markers_of(group) for group in wanted_groups}
    topics = [topic for topic in cluster.topics() if layout.is_changelog(topic) or topic in wanted_topics]
    return ResetPlan(
        layout=layout,
        checkpoints=checkpoints,
        views=tuple(sorted(layout.folder.glob("@*/*.db"))),
        groups=tuple(group for group in groups if group in wanted_groups),
        topics=tuple(topic for topic in topics if topic in wanted_topics),
        out_of_reach=tuple(layout.checkpoint(query) for query in sorted(queries)) if layout.is_remote else (),
        left_alone=tuple(
            [f"group {group}" for group in groups if group not in wanted_groups]
            + [f"topic {topic}" for topic in topics if topic not in wanted_topics]
        ),
    )


def carry_out(reset: ResetPlan, cluster: Admin) -> None:
    """Refused while the application runs or its views are served. The files go last: a second try finds the rest.

    What another reset has taken away since the plan was made is no longer missed.
    """
    with suppress(ClientError):  # it is only shown
        forget(cluster, reset.layout.app)
    with ExitStack() as held:
        held.callback(AppLock(reset.layout).release)
        for store in filter(Path.exists, reset.views):
            held.enter_context(locked(store))
        cluster.delete_topics(reset.topics)
        for group in reset.groups:
            cluster.delete_group(group)
        _remove(reset.layout, reset.checkpoints)


def _remove(layout: Layout, checkpoints: Sequence[Path]) -> None:
    for folder in [*filter(Path.exists, checkpoints), *layout.folder.glob("@*/")]:
        shutil.rmtree(folder)
    layout.status.unlink(missing_ok=True)
    layout.lock.unlink()
    with suppress(OSError):  # not empty, perhaps because the next run has already begun
        layout.folder.rmdir()


def _names_of_earlier_versions(layout: Layout, record: AppRecord | None) -> set[str]:
    """Of queries that the code may not have any more, and whose checkpoints may be where only Spark reaches them."""
    return {path.name for path in layout.steps("").glob("*")} | {
        query.name for query in (record.queries if record else ())
    }


def _folders(layout: Layout) -> tuple[Path, ...]:
    """The checkpoints: all directories but our own, of an application that has run here."""
    if not (layout.lock.exists() or layout.status.exists()):
        return ()
    return tuple(sorted(path for path in layout.folder.glob("*") if path.is_dir() and not path.name.startswith("@")))
