"""The tab that writes a record, also a copy of an existing one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from odradek.client.producer import Producer
from odradek.client.records import ClientError, SendFailed, Stored
from odradek.console.collecting.snapshot import Topic
from odradek.console.frame import Refused
from odradek.console.messages import one
from odradek.console.messages.query import BadQuery, MessageQuery, prepared
from odradek.console.messages.reading import CannotRead
from odradek.console.messages.writing import ENCODINGS, Draft, draft_of, headers_text
from odradek.console.pages.topic.layout import TopicPages
from odradek.web.errors import HttpError

SEND_TIMEOUT_S = 15.0
# What dead-letter queues add: a record that goes back to its topic does not keep them.
DEAD_LETTER_HEADERS = ("__connect.errors.", "__streams.errors.", "kafka_dlt-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    topic: str
    partition: int
    offset: int

    @classmethod
    def of(cls, text: str) -> Place | None:
        topic, _, rest = text.rpartition(":")
        topic, _, partition = topic.rpartition(":")
        if not topic or not partition.isdecimal() or not rest.isdecimal() or len(partition) > 6 or len(rest) > 19:
            return None
        return cls(topic=topic, partition=int(partition), offset=int(rest))

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} at offset {self.offset}"


class Produce:
    def __init__(self, pages: TopicPages) -> None:
        self._pages = pages
        self._console = pages.console

    def page(self, request: Request) -> Response:
        topic = self._pages.topic(request)
        place = Place.of(request.query_params.get("copy", ""))
        if place is None:
            return self._form(request, topic, Draft(), "")
        return self._form(request, topic, self._copied(topic, place), "", copied=place)

    def _copied(self, topic: Topic, place: Place) -> Draft:
        origin = topic if place.topic == topic.name else self._console.snapshot.topics.get(place.topic)
        if origin is None:
            raise HttpError(404, f'topic "{place.topic}" does not exist', "the message cannot be copied")
        try:
            ready = prepared(MessageQuery(), None)
            seen = one.found(self._pages.source(origin), ready, place.partition, place.offset, lambda: None)
        except (BadQuery, CannotRead) as missing:
            raise HttpError(404, str(place), str(missing)) from None
        draft = draft_of(seen.record)
        if origin.name != topic.name:
            kept = [(name, value) for name, value in seen.headers if not name.startswith(DEAD_LETTER_HEADERS)]
            draft = replace(draft, headers=headers_text(kept), partition="")
        return draft

    async def send(self, request: Request) -> Response:
        fields = await self._console.form(request)
        return await run_in_threadpool(self._send, request, fields)

    def _send(self, request: Request, fields: Mapping[str, str]) -> Response:
        topic = self._pages.topic(request)
        draft = Draft.of(fields)
        try:
            stored = self._sent(topic, draft)
        except (Refused, ClientError) as refused:
            return self._form(request, topic, draft, str(refused), status=400)
        there = self._console.to("/topics", topic.name, "messages", stored.partition, stored.offset)
        if fields.get("stay"):
            told = f"Wrote {topic.name}-{stored.partition} at offset {stored.offset}."
            return self._form(request, topic, draft, "", stored=stored, told=told, there=there)
        return self._console.done(f"Wrote partition {stored.partition}, offset {stored.offset}.", there)

    def _sent(self, topic: Topic, draft: Draft) -> Stored:
        record = draft.encoded(len(topic.partitions))
        with Producer(
            self._console.settings.bootstrap, message_timeout_ms=int(SEND_TIMEOUT_S * 1000), linger_ms=0
        ) as producer:
            future = producer.send(
                topic.name, record.value, record.key, headers=record.headers, partition=record.partition
            )
            try:
                return future.result(SEND_TIMEOUT_S + 5)
            except SendFailed as failed:
                raise Refused("The record is not written", str(failed)) from None
            except TimeoutError:
                raise Refused("It is unknown if the record is written", "no broker acknowledged it in time") from None

    def _form(
        self,
        request: Request,
        topic: Topic,
        draft: Draft,
        problem: str,
        *,
        copied: Place | None = None,
        stored: Stored | None = None,
        told: str = "",
        there: str = "",
        status: int = 200,
    ) -> Response:
        return self._pages.tab(
            request,
            topic,
            "produce",
            "topic_produce.html",
            status=status,
            draft=draft,
            problem=problem,
            copied=copied,
            stored=stored,
            told=told,
            there=there,
            encodings=ENCODINGS,
        )
