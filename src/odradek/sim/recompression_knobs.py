"""Which topics recompress batches, drawn from a separate stream: the other draws of a seed do not change.

The simulated clients do not compress, so a topic that asks for gzip recompresses every batch.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from odradek.sim.knobs import Focus, Knobs, TopicPlan, with_patience

_ONE_WORLD_IN = 4


def with_recompression(rng: Random, knobs: Knobs, focus: Focus) -> Knobs:
    recompresses = rng.randrange(_ONE_WORLD_IN) == 0
    if not (recompresses if focus.recompresses is None else focus.recompresses):
        return knobs
    topics = tuple(_perhaps(rng, topic) for topic in knobs.topics)
    compacted = knobs.compacted
    if compacted is not None:
        compacted = replace(compacted, topic=_perhaps(rng, compacted.topic))
    return with_patience(replace(knobs, topics=topics, compacted=compacted))


def _perhaps(rng: Random, topic: TopicPlan) -> TopicPlan:
    if rng.random() < 0.25:
        return topic
    return replace(topic, configs={**topic.configs, "compression.type": "gzip"})
