"""`http-source`: polls a web service for records in JSON, and continues after the last record."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import re
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import msgspec

from odradek.connect.connectors.http_exchange import (
    Exchange,
    Reply,
    basic_login,
    origin,
    web_address,
    without_login,
)
from odradek.connect.connectors.json_pointers import Missing, pointed
from odradek.connect.interface import WHOLE, RetriableError, Source
from odradek.connect.options import Secret, at_least, not_empty, option
from odradek.connect.records import Offset, Partition, Record, SourcePlace

TEMPLATE = re.compile(r"\$\{offset\.([^}]+)\}")
LINK_NEXT = re.compile(r'<([^>]*)>[^,<]*;\s*rel="?next"?')
NOT_MODIFIED = 304


def _pairs(text: str) -> str | None:
    wrong = [part for part in text.split(",") if part.strip() and "=" not in part]
    return "must be a list such as id=/id, time=/created" if wrong else None


def _mapping(text: str) -> dict[str, str]:
    pairs = [part.split("=", 1) for part in text.split(",") if part.strip()]
    return {name.strip(): value.strip() for name, value in pairs}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSourceConfig:
    http_request_url: str = option(
        "The address to poll. ${offset.NAME} is a part of the last record's offset.",
        importance="HIGH",
        check=web_address,
    )
    http_request_method: Literal["GET", "POST"] = option("The method of the requests.", default="GET")
    http_request_params: str = option("The query: since=${offset.id}&limit=100", default="")
    http_request_headers: Secret | None = option("Headers, separated by commas: X-Tenant: a, X-B: b", default=None)
    http_request_body: str | None = option("The body of the requests.", default=None)
    http_auth_type: Literal["None", "Basic"] = option("Basic: send user and password.", default="None")
    http_auth_user: str = option("The user.", default="")
    http_auth_password: Secret = option("The password.", default=Secret(""))
    http_offset_initial: str = option("The offset before the first record: id=0", default="", check=_pairs)
    http_timer_interval_millis: int = option("The time between two polls.", default=60_000, check=at_least(1))
    http_timer_catchup_interval_millis: int = option(
        "The time to the next poll after one that found records.", default=1_000, check=at_least(1)
    )
    http_response_list_pointer: str = option("The JSON pointer to the list of records.", default="/")
    http_response_list_order_direction: Literal["ASC", "DESC"] = option("DESC: the newest is first.", default="ASC")
    http_response_record_pointer: str = option("The pointer to the value in a record.", default="/")
    http_response_record_key_pointer: str | None = option("The pointer to the key in a record.", default=None)
    http_response_record_timestamp_pointer: str | None = option(
        "The pointer to the time in a record: ISO 8601, or milliseconds.", default=None
    )
    http_response_record_offset_pointer: str = option(
        "Pointers to the parts of the offset in a record: id=/id, time=/created", default="", check=_pairs
    )
    http_response_next_page_pointer: str | None = option(
        "The pointer to the address of the next page. A Link header with rel=next is followed, too.", default=None
    )
    http_response_bytes_max: int = option("The largest body of a reply.", default=16 << 20, check=at_least(1))
    http_response_pages_max: int = option("The largest number of pages in one poll.", default=1_000, check=at_least(1))
    http_timeout_millis: int = option("How long a request may take.", default=30_000, check=at_least(1))
    http_ssl_ca_location: str | None = option(
        "A file with the certificates to trust, in PEM format; the default is the system's.", default=None
    )
    kafka_topic: str = option("The topic to write to.", importance="HIGH", check=not_empty)


@dataclass(frozen=True, slots=True)
class _Page:
    reply: Reply
    content: Any
    records: list[Any]


class HttpSource(Source[HttpSourceConfig]):
    """With offset pointers, the offset has the `fields` of the last record. Records up to it are skipped if they are in
    a reply again. Without them, it has the hash of the reply and the number of its records that were read: the same
    reply is not read again. ETag and Last-Modified are kept for the request that they belong to.
    """

    Config: ClassVar[type] = HttpSourceConfig

    def __init__(self, config: HttpSourceConfig, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(config)
        self._clock = clock
        self._due_s = clock()
        self._pointers = _mapping(config.http_response_record_offset_pointer)
        self._check()
        self._url, self._headers = _address(config)
        self._exchange = Exchange(
            connections=1, timeout_s=config.http_timeout_millis / 1000, ca_file=config.http_ssl_ca_location
        )

    def _check(self) -> None:
        config, initial = self.config, _mapping(self.config.http_offset_initial)
        used = TEMPLATE.findall(f"{config.http_request_url} {config.http_request_params} {config.http_request_body}")
        for name in used:
            if name not in self._pointers or name not in initial:
                raise ValueError(
                    f"a request uses ${{offset.{name}}}: give {name} in http.response.record.offset.pointer "
                    "and in http.offset.initial"
                )

    def has_news(self, partition: Partition, offset: Offset | None) -> bool:
        if self._clock() < self._due_s:
            return False
        self._wait(self.config.http_timer_interval_millis)
        return any(isinstance(each, Record) for each in self._poll(partition, offset))

    def read(self, partition: Partition, offset: Offset | None) -> Iterator[Record | SourcePlace | None]:
        if self._clock() < self._due_s:
            return
        self._wait(self.config.http_timer_interval_millis)
        for each in self._poll(partition, offset):
            if isinstance(each, Record):
                self._wait(self.config.http_timer_catchup_interval_millis)
            yield each

    def _wait(self, millis: int) -> None:
        self._due_s = self._clock() + millis / 1000

    def _poll(self, partition: Partition, offset: Offset | None) -> Iterator[Record | SourcePlace]:
        known = dict(offset or {})
        return self._after_last(partition, known) if self._pointers else self._if_changed(partition, known)

    def _after_last(self, partition: Partition, known: dict[str, Any]) -> Iterator[Record | SourcePlace]:
        last = known.get("fields")
        began = self._request(last)
        validators: dict[str, str] = {}
        for number, page in enumerate(self._pages(began, known)):
            if number == 0:
                validators = _validators(page.reply)
            fields = [self._fields(each) for each in page.records]
            start = fields.index(last) + 1 if last in fields else 0
            for value, last in zip(page.records[start:], fields[start:], strict=True):
                yield self._record(value, SourcePlace(partition, {"fields": last}))
        # A later request with other offsets has other validators.
        if validators and self._request(last) == began:
            after = {"request": _digest(*began), **validators} | ({"fields": last} if last is not None else {})
            if after != known:
                yield SourcePlace(partition, after)

    def _if_changed(self, partition: Partition, known: dict[str, Any]) -> Iterator[Record | SourcePlace]:
        began = self._request(None)
        pages: list[_Page] = []
        for page in self._pages(began, known):
            pages.append(page)
            if sum(len(each.reply.body) for each in pages) > self.config.http_response_bytes_max:
                raise ValueError("all pages together are larger than http.response.bytes.max: give offset pointers")
        if not pages:
            return
        digest = _digest(*(page.reply.body for page in pages))
        values = [value for page in pages for value in page.records]
        start = int(known.get("index", 0)) if known.get("digest") == digest else 0
        for index, value in enumerate(values[start:], start + 1):
            yield self._record(value, SourcePlace(partition, {"digest": digest, "index": index}))
        after = {"digest": digest, "index": len(values)}
        validators = _validators(pages[0].reply)
        if validators and len(pages) == 1:  # the first page may stay the same while others change
            after |= {"request": _digest(*began), **validators}
        if after != known:
            yield SourcePlace(partition, after)

    def _request(self, last: Mapping[str, Any] | None) -> tuple[str, bytes | None]:
        """The address and the body, with the offset filled in."""
        fields = {**_mapping(self.config.http_offset_initial), **(last or {})}

        def filled(text: str, quoted: bool) -> str:
            return TEMPLATE.sub(
                lambda found: urllib.parse.quote(str(fields[found[1]]), safe="") if quoted else str(fields[found[1]]),
                text,
            )

        url = filled(self._url, quoted=True)
        if self.config.http_request_params:
            url += ("&" if "?" in url else "?") + filled(self.config.http_request_params, quoted=True)
        body = self.config.http_request_body
        return url, None if body is None else filled(body, quoted=False).encode()

    def _pages(self, began: tuple[str, bytes | None], known: Mapping[str, Any]) -> Iterator[_Page]:
        """No page if the server says that nothing has changed."""
        url, body = began
        headers = dict(self._headers)
        if known.get("request") == _digest(*began):
            names = {"etag": "If-None-Match", "modified": "If-Modified-Since"}
            headers |= {header: str(known[name]) for name, header in names.items() if name in known}
        seen: set[str] = set()
        while url:
            if url in seen or len(seen) >= self.config.http_response_pages_max:
                raise ValueError(f"{url} is the next page of itself, or there are more than http.response.pages.max")
            seen.add(url)
            reply = self._reply(url, body, headers)
            if reply.status == NOT_MODIFIED:
                return
            page = self._parsed(url, reply)
            yield page
            url, headers = self._next(url, page), dict(self._headers)

    def _reply(self, url: str, body: bytes | None, headers: Mapping[str, str]) -> Reply:
        limit = self.config.http_response_bytes_max
        reply = self._exchange.send(self.config.http_request_method, url, body, headers, limit)
        told = f"{url} answers {reply.shown}"
        if reply.is_busy:
            self._due_s = max(self._due_s, self._clock() + reply.retry_after_s)
            raise RetriableError(told)
        if not (200 <= reply.status < 300 or reply.status == NOT_MODIFIED):
            raise ValueError(f"{told}. Correct the options http.request.* and http.auth.*")
        if reply.is_cut:
            raise ValueError(f"{url} answers with more than {limit} bytes: raise http.response.bytes.max or use pages")
        return reply

    def _parsed(self, url: str, reply: Reply) -> _Page:
        try:
            content = msgspec.json.decode(reply.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
            raise ValueError(f"{url} does not answer with JSON: {wrong}") from wrong
        found = pointed(content, self.config.http_response_list_pointer)
        records = list(found) if isinstance(found, list) else [] if found is None else [found]
        if self.config.http_response_list_order_direction == "DESC":
            records.reverse()
        return _Page(reply, content, records)

    def _next(self, url: str, page: _Page) -> str:
        link = LINK_NEXT.search(page.reply.headers.get("Link", ""))
        target = link[1] if link else None
        if self.config.http_response_next_page_pointer:
            with contextlib.suppress(Missing):
                target = pointed(page.content, self.config.http_response_next_page_pointer) or target
        if not target:
            return ""
        following = urllib.parse.urljoin(url, str(target))
        if origin(following) != origin(url):
            raise ValueError(f"the next page {following} is on another server, which must not get the login")
        return following

    def _fields(self, value: object) -> dict[str, Any]:
        return {name: pointed(value, pointer) for name, pointer in self._pointers.items()}

    def _record(self, value: object, place: SourcePlace) -> Record:
        config = self.config
        key, at = config.http_response_record_key_pointer, config.http_response_record_timestamp_pointer
        return Record(
            topic=config.kafka_topic,
            key=pointed(value, key) if key else None,
            value=pointed(value, config.http_response_record_pointer),
            timestamp_ms=_millis(pointed(value, at)) if at else None,
            place=place,
        )

    def partitions(self) -> Sequence[Partition]:
        return [WHOLE]

    def close(self) -> None:
        self._exchange.close()


def _address(config: HttpSourceConfig) -> tuple[str, dict[str, str]]:
    url, headers = without_login(config.http_request_url)
    headers = {"Accept": "application/json", **headers}
    if config.http_request_body is not None:
        headers["Content-Type"] = "application/json"
    if config.http_auth_type == "Basic":
        headers |= basic_login(f"{config.http_auth_user}:{config.http_auth_password.reveal()}")
    for part in config.http_request_headers.reveal().split(",") if config.http_request_headers else []:
        name, colon, text = part.partition(":")
        if not colon:
            raise ValueError("http.request.headers must be a list of headers such as X-Tenant: a, X-B: b")
        headers[name.strip()] = text.strip()
    return url, headers


def _validators(reply: Reply) -> dict[str, str]:
    names = {"etag": "ETag", "modified": "Last-Modified"}
    return {name: reply.headers[header] for name, header in names.items() if header in reply.headers}


def _digest(*parts: str | bytes | None) -> str:
    joined = hashlib.sha256()
    for part in parts:
        joined.update(part.encode() if isinstance(part, str) else part or b"")
        joined.update(b"\0")
    return joined.hexdigest()


def _millis(value: object) -> int:
    if isinstance(value, int):
        return value
    try:
        at = dt.datetime.fromisoformat(str(value))
    except ValueError:
        raise ValueError(f"the time of a record is {value!r}; it must be ISO 8601 or milliseconds") from None
    return round((at if at.tzinfo else at.replace(tzinfo=dt.UTC)).timestamp() * 1000)
