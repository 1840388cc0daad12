"""What the tabs of a topic share: the topic itself, its heading, and the tabs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from odradek.client.wire import NoAnswer
from odradek.console.collecting.layout import read_topic
from odradek.console.collecting.snapshot import Snapshot, Topic
from odradek.console.decoding.schemas import Schemas
from odradek.console.frame import Console, not_found
from odradek.console.messages.source import Source
from odradek.console.messages.streaming import Places
from odradek.console.topic_configs import ListedConfigs
from odradek.web.errors import HttpError

# The tabs, and the parameters of the address that they keep.
TABS = (
    ("messages", "Messages"),
    ("produce", "Produce"),
    ("partitions", "Partitions"),
    ("consumers", "Consumers"),
    ("configuration", "Configuration"),
    ("manage", "Manage"),
)


class TopicPages:
    def __init__(self, console: Console) -> None:
        self.console = console
        registry = console.settings.schema_registry
        self.schemas = Schemas(registry) if registry else None
        self.places = Places()
        self.configs = ListedConfigs(console.cluster)

    def topic(self, request: Request) -> Topic:
        """The topic of the address. Asks a broker for one that is newer than the snapshot. Raises HttpError."""
        name = request.path_params["topic"]
        known = self.console.snapshot.topics.get(name)
        if known is None:
            try:
                known = read_topic(self.console.cluster, name)
            except NoAnswer as silent:
                raise HttpError(503, f"topic {name} is not known", str(silent)) from None
        if known is None:
            raise not_found("topic", name, "it was deleted, or its name is spelled differently")
        return known

    def source(self, topic: Topic) -> Source:
        return Source(self.console.cluster, self.console.snapshot, topic)

    def tab(
        self,
        request: Request,
        topic: Topic,
        name: str,
        template: str,
        status: int = 200,
        **model: Any,  # noqa: ANN401 (what templates take)
    ) -> Response:
        console = self.console
        snapshot = console.snapshot
        return console.page(
            request,
            template,
            title=topic.name,
            status=status,
            topic=topic,
            figures=figures(snapshot, topic),
            trend=console.trend(f"topic/{topic.name}"),
            cleanup=self.configs.of([topic.name]).get(topic.name, {}).get("cleanup.policy", ""),
            tab=name,
            tabs=[
                (each, text, console.to("/topics", topic.name, *([] if each == "messages" else [each])))
                for each, text in TABS
            ],
            **model,
        )


def figures(snapshot: Snapshot, topic: Topic) -> Mapping[str, Any]:
    ends, starts = snapshot.ends.get(topic.name, ()), snapshot.starts.get(topic.name, ())
    known = [(end, start) for end, start in zip(ends, starts, strict=False) if end >= 0 and start >= 0]
    return {
        "records": sum(end - start for end, start in known) if known else None,
        "size": snapshot.sizes.get(topic.name),
        "rate": snapshot.rates.get(topic.name),
    }
