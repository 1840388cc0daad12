"""One topic: its messages, producing, partitions, consumers and configuration, each a tab."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.routing import BaseRoute, Route

from odradek.console.pages.topic.changes import Changes
from odradek.console.pages.topic.configuration import Configuration
from odradek.console.pages.topic.layout import TopicPages
from odradek.console.pages.topic.messages import Messages
from odradek.console.pages.topic.overview import Overview
from odradek.console.pages.topic.produce import Produce


def topic_routes(pages: TopicPages) -> Sequence[BaseRoute]:
    messages, produce = Messages(pages), Produce(pages)
    overview, configuration, changes = Overview(pages), Configuration(pages), Changes(pages)
    return [
        Route("/topics/{topic}", messages.page),
        Route("/topics/{topic}/search", messages.search),
        Route("/topics/{topic}/live", messages.live),
        Route("/topics/{topic}/export.{form}", messages.export),
        Route("/topics/{topic}/messages/{partition}/{offset}", messages.one),
        Route("/topics/{topic}/produce", produce.page),
        Route("/topics/{topic}/produce", produce.send, methods=["POST"]),
        Route("/topics/{topic}/partitions", overview.partitions),
        Route("/topics/{topic}/consumers", overview.consumers),
        Route("/topics/{topic}/configuration", configuration.page),
        Route("/topics/{topic}/configuration", configuration.change, methods=["POST"]),
        Route("/topics/{topic}/manage", changes.page),
        Route("/topics/{topic}/add-partitions", changes.add_partitions, methods=["POST"]),
        Route("/topics/{topic}/delete-records", changes.delete_records, methods=["POST"]),
        Route("/topics/{topic}/delete", changes.delete, methods=["POST"]),
    ]
