"""Which topics are mirrored, and their names in the target: MirrorMaker 2's filters and replication policies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

HEARTBEATS = "heartbeats"
OFFSET_SYNCS = "mm2-offset-syncs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """`keeps_names`: the IdentityReplicationPolicy. Otherwise a topic is prefixed with the alias of its cluster."""

    source: str
    target: str
    separator: str = "."
    internal_separator: str = "."
    keeps_names: bool = False

    def remote(self, topic: str) -> str:
        """The name of a source's topic in the target. Heartbeats show by their name which way they came."""
        if self.keeps_names and not self.is_heartbeats(topic):
            return topic
        return f"{self.source}{self.separator}{topic}"

    def origin(self, topic: str) -> str | None:
        """The alias of the cluster that a topic was mirrored from, as far as its name tells."""
        if self.keeps_names and not self.is_heartbeats(topic):
            return self.source
        alias, _, rest = topic.partition(self.separator)
        return alias if rest.replace(self.separator, "") else None

    def upstream(self, topic: str) -> str | None:
        """The name of a mirrored topic in the cluster that it was mirrored from."""
        if self.keeps_names and not self.is_heartbeats(topic):
            return topic
        return None if self.origin(topic) is None else topic.partition(self.separator)[2]

    def original(self, topic: str) -> str:
        """The name of a topic where it was first written, over any number of mirrors."""
        while (upstream := self.upstream(topic)) is not None and upstream != topic:
            topic = upstream
        return topic

    def is_heartbeats(self, topic: str) -> bool:
        if topic == HEARTBEATS:
            return True
        return topic.endswith(f"{self.separator}{HEARTBEATS}")

    def returns(self, topic: str) -> bool:
        """Whether a topic of the source was mirrored from the target: mirroring it would never end."""
        origin = self.origin(topic)
        while origin is not None:
            if origin == self.target:
                return True
            upstream = self.upstream(topic)
            if upstream is None or upstream == topic:
                return False
            topic, origin = upstream, self.origin(upstream)
        return False

    def in_target(self, topic: str) -> str:
        """The target's name of a topic that a group of the source reads: mirrored to it, or from it."""
        if not self.keeps_names and self.origin(topic) == self.target:
            return self.original(topic)
        return self.remote(topic)

    def offset_syncs(self, *, in_source: bool) -> str:
        """The topic of offset syncs. In the source's cluster it has the target's alias, and the other way round."""
        alias = self.target if in_source else self.source
        return f"{OFFSET_SYNCS}{self.internal_separator}{alias}{self.internal_separator}internal"

    def checkpoints(self) -> str:
        return f"{self.source}{self.internal_separator}checkpoints{self.internal_separator}internal"

    def is_internal(self, topic: str) -> bool:
        """Topics of Kafka and of mirrors."""
        suffix = f"{self.internal_separator}internal"
        is_of_mirrors = topic.endswith(f"{self.internal_separator}checkpoints{suffix}")
        is_of_mirrors = is_of_mirrors or (topic.startswith("mm2") and topic.endswith(suffix))
        return is_of_mirrors or topic.startswith(("__", "."))


@dataclass(frozen=True, slots=True)
class Filter:
    """Names that an included pattern matches as a whole, and no excluded pattern does."""

    included: re.Pattern[str]
    excluded: re.Pattern[str]

    @classmethod
    def of(cls, included: Sequence[str], excluded: Sequence[str]) -> Filter:
        return cls(_any_of(included), _any_of(excluded))

    def __contains__(self, name: str) -> bool:
        return bool(self.included.fullmatch(name)) and not self.excluded.fullmatch(name)


def _any_of(patterns: Sequence[str]) -> re.Pattern[str]:
    # Without a pattern nothing matches, the empty name included.
    return re.compile("|".join(f"(?:{each})" for each in patterns) or r"(?!)")
