"""The tab of messages: the toolbar, the events of searches and live tails, one message, and export."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from odradek.client.wire import NoAnswer
from odradek.console.collecting.snapshot import Topic
from odradek.console.decoding.choosing import NAMES
from odradek.console.messages import exporting, one
from odradek.console.messages.copying import commands
from odradek.console.messages.query import LIMITS, STARTS, BadQuery, MessageQuery, Prepared, prepared, query_of
from odradek.console.messages.reading import CannotRead
from odradek.console.messages.source import Source
from odradek.console.messages.streaming import searching, tailing
from odradek.console.pages.topic.layout import TopicPages
from odradek.web.errors import HttpError
from odradek.web.work import Patient, WorkStream

# Parameters that only say how messages are shown: links to a message keep them.
SHOWING = ("key", "value", "key_schema", "value_schema")
PARTITIONS_IN_LIST_MAX = 200
NUMBER_CHARS_MAX = 19


class Messages:
    def __init__(self, pages: TopicPages) -> None:
        self._pages = pages

    def page(self, request: Request) -> Response:
        topic = self._pages.topic(request)
        query, problem = MessageQuery(), None
        try:
            query = query_of(request.query_params)
            prepared(query, self._pages.schemas)
        except BadQuery as wrong:
            problem = wrong
        params = {name: value for name, value in request.query_params.items() if name != "left"}
        return self._pages.tab(
            request,
            topic,
            "messages",
            "topic_messages.html",
            q=query,
            typed=params,
            problem=problem,
            starts=STARTS,
            limits=[(str(each), each) for each in LIMITS],
            decoders=NAMES,
            partitions=[each.number for each in topic.partitions[:PARTITIONS_IN_LIST_MAX]],
            encoded=urlencode(params),
            has_registry=self._pages.schemas is not None,
        )

    # Events

    def search(self, request: Request) -> Response:
        _require_own_page(request)
        topic = self._pages.topic(request)
        return WorkStream(
            partial(searching, self._pages.places, partial(self._prepared, request, topic)), "odradek-console-search"
        )

    def live(self, request: Request) -> Response:
        _require_own_page(request)
        topic = self._pages.topic(request)
        return WorkStream(
            partial(tailing, self._pages.places, partial(self._prepared, request, topic)), "odradek-console-live"
        )

    def _prepared(self, request: Request, topic: Topic) -> tuple[Source, Prepared]:
        return self._pages.source(topic), prepared(query_of(request.query_params), self._pages.schemas)

    # One message

    def one(self, request: Request) -> Response:
        topic = self._pages.topic(request)
        partition, offset = _number(request.path_params["partition"]), _number(request.path_params["offset"])
        try:
            source, ready = self._prepared(request, topic)
            seen = one.found(source, ready, partition, offset, lambda: None)
        except (BadQuery, CannotRead) as missing:
            raise HttpError(404, f"{topic.name}-{partition} at offset {offset}", str(missing)) from None
        message = one.message_of(seen, ready)
        accepted = request.headers.get("accept", "")
        if "text/html" not in accepted:
            return JSONResponse(one.as_json(message, topic.name))
        console = self._pages.console
        showing = {name: request.query_params[name] for name in SHOWING if request.query_params.get(name)}
        path = console.to("/topics", topic.name, "messages", partition, offset, **showing)
        model: dict[str, Any] = {
            "message": message,
            "path": path,
            "showing": showing,
            "commands": commands(
                console.settings.bootstrap,
                topic.name,
                partition,
                offset,
                f"{request.url.scheme}://{request.url.netloc}{path}",
            ),
            "is_part": bool(request.headers.get("x-part")),
            "can_redrive": message.origin is not None and message.origin in console.snapshot.topics,
            "decoders": NAMES,
            "q": ready.query,
        }
        if request.headers.get("x-part"):
            return console.page(request, "topic_message_part.html", title=topic.name, topic=topic, **model)
        return self._pages.tab(request, topic, "messages", "topic_message.html", **model)

    # Export

    def export(self, request: Request) -> Response:
        _require_own_page(request)
        form = request.path_params["form"]
        if form not in exporting.MEDIA_TYPES:
            raise HttpError(404, f"there is no export as {form}", f"there are {', '.join(exporting.MEDIA_TYPES)}")
        topic = self._pages.topic(request)
        try:
            source, ready = self._prepared(request, topic)
            lines = self._lines(source, ready, form)
            first = next(lines, "")
        except BadQuery as wrong:
            raise HttpError(400, f"{wrong.name} cannot be used", wrong.why) from None
        except (CannotRead, NoAnswer) as problem:
            raise HttpError(503, f"{topic.name} cannot be read", str(problem)) from None
        name = f"{topic.name}.{form}"
        headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
        return _File(_after(first, lines), media_type=exporting.MEDIA_TYPES[form], headers=headers)

    def _lines(self, source: Source, ready: Prepared, form: str) -> Iterator[str]:
        with self._pages.places.one() as free:
            if not free:
                raise CannotRead("too many searches run already; stop one of them, or try later")
            yield from exporting.exported(source, ready, form, _nothing)


def _number(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > NUMBER_CHARS_MAX:
        raise HttpError(404, f"{text[:40]!r} is no partition and no offset", "there is no message at this address")
    return int(text)


class _File(StreamingResponse):
    """Ends when the listener reads nothing for long: an export holds one of the few places."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, Patient(send))
        except* TimeoutError:
            pass


def _require_own_page(request: Request) -> None:
    """A search costs more than a page: no other site may start one in a visitor's browser. Programs may."""
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        raise HttpError(403, "a page from another site may not do this", "search on the page of this console")


def _nothing() -> None:
    """An export stops when its generator is closed."""


def _after(first: str, lines: Iterator[str]) -> Iterator[str]:
    yield first
    yield from lines
