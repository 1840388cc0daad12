"""`feed`: the items of an RSS feed, each once."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from odradek.connect.interface import RetriableError, source
from odradek.connect.options import not_empty, option
from odradek.connect.records import Offset, Record, SourcePlace

KNOWN_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    url: str = option("The address of the feed.", check=not_empty)
    topic: str = option("The topic to write to.", check=not_empty)


@source(Feed)
def feed(config: Feed, offset: Offset | None) -> Iterator[Record]:
    """The offset has the ids of the newest items, because the items of a feed have no order that lasts."""
    known = list(offset["known"]) if offset else []
    try:
        with urllib.request.urlopen(config.url, timeout=10) as answer:
            items = ET.fromstring(answer.read()).findall("channel/item")
    except OSError as away:
        raise RetriableError(f"{config.url} does not answer: {away}") from away
    for item in reversed(items):  # the newest item is the first
        id_ = item.findtext("guid") or item.findtext("link")
        if id_ not in known:
            known = [*known, id_][-KNOWN_MAX:]
            value = {part.tag: part.text for part in item}
            yield Record(topic=config.topic, key=id_, value=value, place=SourcePlace({}, {"known": known}))
