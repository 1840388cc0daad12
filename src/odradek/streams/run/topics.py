"""The topics of an application on the cluster: those it writes are created, those it reads must be there."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from odradek.client.admin import Admin
from odradek.client.java_names import librdkafka_config
from odradek.pipeline.errors import PipelineError
from odradek.streams.graph.planning import Query
from odradek.streams.graph.settings import Settings
from odradek.streams.graph.sinks import DeadLetters, LateRows, Materialize, Sink, TopicSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


def create_topics(queries: tuple[Query, ...], settings: Settings) -> None:
    """Creates the missing topics of sinks. Topics of sources must exist, unless this application writes them."""
    cluster = Admin(settings.bootstrap, librdkafka_config(settings.config))
    made = [sink for query in queries for sink in query.sinks if _makes_its_topic(sink)]
    known = {*cluster.topics(), *(sink.topic for sink in made)}
    wanted = {topic: node for query in queries for node in query.sources for topic in node.topics}
    if missing := sorted(wanted.keys() - known):
        names = ", ".join(map(repr, missing))
        create = "; ".join(f"odradek topic create {topic}" for topic in missing)
        raise PipelineError(
            f"there {'is no topic' if len(missing) == 1 else 'are no topics'} {names} on {settings.bootstrap}",
            instead=f"{create}, or start first what writes {'it' if len(missing) == 1 else 'them'}",
            origin=wanted[missing[0]].origin,
        )
    for sink in made:
        if isinstance(sink, DeadLetters | LateRows):
            cluster.create_topic(sink.topic)
        else:
            cluster.create_topic(sink.topic, sink.partitions or -1, sink.config)


def _makes_its_topic(sink: Sink) -> TypeGuard[TopicSink | Materialize | DeadLetters | LateRows]:
    return isinstance(sink, Materialize | DeadLetters | LateRows) or (isinstance(sink, TopicSink) and sink.create)


def spread_state(queries: tuple[Query, ...], settings: Settings, session: SparkSession) -> None:
    """On a cluster, sets the default number of shards: the largest number of partitions of an input topic.

    Rows do not come in more parallel than that, and every micro-batch would visit each of Spark's 200 parts. A query
    that has a checkpoint keeps the number it began with.
    """
    if session.sparkContext.getConf().contains(SHUFFLE_PARTITIONS):
        return
    cluster = Admin(settings.bootstrap, librdkafka_config(settings.config))
    topics = [topic for topic in cluster.topics() if any(query.takes_from([topic]) for query in queries)]
    widest = max((len(cluster.partitions(topic)) for topic in topics), default=0)
    if widest:
        session.conf.set(SHUFFLE_PARTITIONS, widest)
