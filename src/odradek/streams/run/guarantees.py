"""What an application guarantees for its topics on this cluster, decided before it starts.

Exactly once needs transactions, and checkpoints that fit what was written: the markers in `<app>.<query>-markers` say
which micro-batches were. Tasks compare them too, but a checkpoint that is one micro-batch too old is only noticed here.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from confluent_kafka import KafkaException

from odradek.client.java_names import librdkafka_config
from odradek.client.transactions_offered import NoTransactions
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.layout import Layout, markers_of
from odradek.spark.batch_markers import Marker, MarkersUnreadable, MarkerTopic
from odradek.spark.sink_options import sink_options
from odradek.spark.task_producer import Failures
from odradek.spark.transactional_producer import initialized
from odradek.streams.graph.application import Application
from odradek.streams.graph.planning import Query
from odradek.streams.graph.settings import AT_LEAST_ONCE, EXACTLY_ONCE, Settings

PROBED_WITHIN_S = 30.0
_log = logging.getLogger("odradek.streams")
_proven: set[str] = set()  # clusters that have transactions


def deciding(app: Application, queries: Sequence[Query], settings: Settings) -> Future[Settings]:
    """Asks the cluster in a thread: meanwhile Spark starts."""

    def decide() -> Settings:
        in_use = decided(app, settings)
        try:
            check_checkpoints(Layout(settings.state_dir, app.name), queries, in_use)
        except NoTransactions as refused:
            return _without(app, settings, str(refused))
        return in_use

    thread = ThreadPoolExecutor(1, "odradek-guarantee")
    future = thread.submit(decide)
    thread.shutdown(wait=False)
    return future


def decided(app: Application, settings: Settings) -> Settings:
    """The settings with `delivery` resolved. PipelineError if exactly once was asked for and is impossible."""
    if settings.delivery == AT_LEAST_ONCE:
        return settings
    why = _why_not(app.name, settings)
    if why is None:
        return settings.over(delivery=EXACTLY_ONCE)
    return _without(app, settings, why)


def _without(app: Application, settings: Settings, why: str) -> Settings:
    if settings.delivery == EXACTLY_ONCE:
        raise PipelineError(
            f"{app.name} cannot write exactly once on {settings.bootstrap}",
            why=why,
            instead=f"delivery={AT_LEAST_ONCE!r}, or none: then it writes exactly once where that is possible",
            origin=app.origin,
        )
    _log.warning("%s: topics are written at least once, not exactly once: %s", app.name, why)
    return settings.over(delivery=AT_LEAST_ONCE)


def _why_not(app: str, settings: Settings) -> str | None:
    if Layout(settings.state_dir, app).is_remote:
        return (
            f"only Spark can read the checkpoints in {settings.state_dir}, so one that is older than the results would "
            "not be noticed, and records would be missing"
        )
    options = {"kafka.bootstrap.servers": settings.bootstrap, "topic": "any"}
    options |= {f"kafka.{name}": value for name, value in settings.config.items()}
    given = sink_options(options)
    if given.guarantee is None:
        return "config= turns off the idempotent producer (acks, retries, max.in.flight.requests.per.connection)"
    if settings.bootstrap in _proven:
        return None
    try:
        initialized(given.config, f"{app}.start", Failures(), PROBED_WITHIN_S)
    except NoTransactions as none:
        return str(none)
    except KafkaException as unknown:
        error = unknown.args[0]
        raise PipelineError(
            f"the transaction coordinator on {settings.bootstrap} does not answer",
            why=f"{error.str()} ({error.name()})",
            instead=f"a start when it does; or delivery={AT_LEAST_ONCE!r}, which needs no transactions",
        ) from None
    _proven.add(settings.bootstrap)
    return None


def check_checkpoints(layout: Layout, queries: Sequence[Query], settings: Settings) -> None:
    """Refuses a checkpoint that was deleted, or is older than the results."""
    if settings.delivery != EXACTLY_ONCE or layout.is_remote:
        return
    config = {**librdkafka_config(settings.config), "bootstrap.servers": settings.bootstrap}
    for query in queries:
        if not query.writes:
            continue
        group = layout.group(query.name)
        markers = _markers(markers_of(group), config, f"{group}.")
        if markers:
            _check(layout, query, max(markers.values(), key=lambda marker: marker.batch))


def _markers(topic: str, config: Mapping[str, str], prefix: str) -> dict[str, Marker]:
    try:
        return MarkerTopic(topic).all(config, prefix)
    except (KafkaException, MarkersUnreadable) as unreadable:
        raise PipelineError(
            f"the internal topic {topic} cannot be read",
            why=str(unreadable),
            instead=f"a start when it can; or delivery={AT_LEAST_ONCE!r}, which needs no markers",
        ) from None


def _check(layout: Layout, query: Query, newest: Marker) -> None:
    checkpoint = Path(layout.checkpoint(query.name))
    metadata = checkpoint / "metadata"
    known = json.loads(metadata.read_text())["id"] if metadata.exists() else None
    planned = max((int(path.name) for path in (checkpoint / "offsets").glob("[0-9]*")), default=-1)
    if known == newest.query_id and newest.batch <= planned:
        return
    found = f"ends at {planned}" if known == newest.query_id else "was deleted or replaced"
    raise PipelineError(
        f"{query.name} has written results that its checkpoint does not know",
        why=f"they are of micro-batch {newest.batch}, and the checkpoint in {checkpoint} {found}",
        instead=f"the newest checkpoint, restored; or `odradek streams reset {layout.app}`, to begin again and write "
        "all results again",
        origin=query.trunk.origin,
    )
