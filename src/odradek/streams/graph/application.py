"""An application as it is written: a name, where it runs, and its graph."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.pipeline.errors import Origin
from odradek.pipeline.layout import Layout
from odradek.streams.graph.graph import Graph
from odradek.streams.graph.planning import Query, plan
from odradek.streams.graph.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    name: str
    settings: Settings
    graph: Graph
    origin: Origin

    def queries(self, settings: Settings | None = None) -> tuple[Query, ...]:
        """What a run would start, with these settings or its own."""
        in_use = settings or self.settings
        return plan(self.graph, state_on_disk=not Layout(in_use.state_dir, self.name).is_remote)
