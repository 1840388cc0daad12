"""The tab with what changes a topic permanently: more partitions, deleting records, deleting the topic."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from odradek.client.records import ClientError
from odradek.client.wire import NoAnswer
from odradek.console.collecting.figures import LATEST, UNKNOWN
from odradek.console.collecting.snapshot import Topic
from odradek.console.filters.moments import FORMS, moment_ms
from odradek.console.frame import Refused
from odradek.console.messages.query import BadQuery
from odradek.console.messages.reading import CannotRead
from odradek.console.pages.topic.layout import TopicPages
from odradek.console.rendering import count

PARTITIONS_MAX = 10_000
ALL = "all"
Do = Callable[[Topic, Mapping[str, str]], Response]


class Changes:
    def __init__(self, pages: TopicPages) -> None:
        self._pages = pages
        self._console = pages.console

    def page(self, request: Request) -> Response:
        topic = self._pages.topic(request)
        groups = [
            name
            for name, group in self._console.snapshot.groups.items()
            if group.lag is not None and topic.name in group.lag.lag_by_topic
        ]
        return self._pages.tab(request, topic, "manage", "topic_manage.html", groups=groups, times=FORMS)

    async def add_partitions(self, request: Request) -> Response:
        return await self._done(request, self._add_partitions)

    async def delete_records(self, request: Request) -> Response:
        return await self._done(request, self._delete_records)

    async def delete(self, request: Request) -> Response:
        return await self._done(request, self._delete)

    async def _done(self, request: Request, do: Do) -> Response:
        fields = await self._console.form(request)
        return await run_in_threadpool(self._try, request, fields, do)

    def _try(self, request: Request, fields: Mapping[str, str], do: Do) -> Response:
        topic = self._pages.topic(request)
        try:
            return do(topic, fields)
        except (Refused, ClientError, CannotRead, NoAnswer, BadQuery) as refused:
            return self._console.not_done(refused, self._console.to("/topics", topic.name, "manage"))

    def _add_partitions(self, topic: Topic, fields: Mapping[str, str]) -> Response:
        text, now = fields.get("total", "").strip(), len(topic.partitions)
        if not text.isascii() or not text.isdecimal() or not now < int(text[:9]) <= PARTITIONS_MAX:
            raise Refused("No partition is added", f"expected a number from {now + 1} to {PARTITIONS_MAX}")
        self._console.admin.add_partitions(topic.name, int(text))
        return self._console.done(
            f"{topic.name} has {text} partitions.", self._console.to("/topics", topic.name, "partitions")
        )

    def _delete_records(self, topic: Topic, fields: Mapping[str, str]) -> Response:
        self._confirmed(topic, fields, "No record is deleted")
        source = self._pages.source(topic)
        partitions = source.chosen(_partition(fields.get("partition", ALL)))
        ends = source.offsets(partitions, LATEST)
        before = self._before(topic, fields, partitions, ends)
        starts = self._console.admin.delete_records(
            {(topic.name, index): offset for index, offset in before.items() if index in ends}
        )
        places = len(starts)
        return self._console.done(
            f"Deleted the records of {count(places)} {'partition' if places == 1 else 'partitions'} of {topic.name}.",
            self._console.to("/topics", topic.name, "partitions"),
        )

    def _before(
        self, topic: Topic, fields: Mapping[str, str], partitions: list[int], ends: Mapping[int, int]
    ) -> dict[int, int]:
        how, at = fields.get("before", ""), fields.get("at", "").strip()
        if how == "end":
            return dict(ends)
        if how == "offset":
            if not at.isascii() or not at.isdecimal() or len(at) > 19:
                raise Refused("No record is deleted", f"{at[:30]!r} is no offset")
            return {index: min(int(at), end) for index, end in ends.items()}
        if how == "time":
            try:
                moment = moment_ms(at, int(time.time() * 1000))
            except (ValueError, OverflowError):
                raise Refused("No record is deleted", f"{at[:40]!r}: expected {FORMS}") from None
            return self._before_time(topic, moment, partitions, ends)
        raise Refused("No record is deleted", "choose which records")

    def _before_time(self, topic: Topic, moment: int, partitions: list[int], ends: Mapping[int, int]) -> dict[int, int]:
        first = self._pages.source(topic).offsets(partitions, moment)
        # A partition without an answer is not one without newer records: its records must stay.
        unknown = [index for index in ends if index not in first]
        if unknown:
            few = ", ".join(map(str, unknown[:10])) + (", …" if len(unknown) > 10 else "")
            raise Refused("No record is deleted", f"the leader did not say which records are newer; partition: {few}")
        return {index: end if first[index] == UNKNOWN else first[index] for index, end in ends.items()}

    def _delete(self, topic: Topic, fields: Mapping[str, str]) -> Response:
        self._confirmed(topic, fields, "The topic is not deleted")
        self._console.admin.delete_topics([topic.name])
        return self._console.done(f"Deleted the topic {topic.name}.", self._console.to("/topics"))

    def _confirmed(self, topic: Topic, fields: Mapping[str, str], what: str) -> None:
        if fields.get("confirm", "").strip() != topic.name:
            raise Refused(what, f'the confirmation is not "{topic.name}"')


def _partition(text: str) -> tuple[int, ...]:
    if text == ALL:
        return ()
    if not text.isascii() or not text.isdecimal() or len(text) > 6:
        raise Refused("No record is deleted", f"{text[:20]!r} is no partition")
    return (int(text),)
