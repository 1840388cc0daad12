"""`http-sink`: records as requests to a web service, in order for each key, with retries."""

from __future__ import annotations

import re
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import msgspec

from odradek.connect.connectors.http_exchange import Exchange, Reply, Unreachable, web_address, without_login
from odradek.connect.interface import BadRecord, RetriableError, Sink
from odradek.connect.options import Secret, at_least, option
from odradek.connect.records import Record, TopicPlace

REPLY_BYTES_MAX = 1 << 16
RETRY_DELAY_S_MAX = 60.0
# The server refuses the connector, not a record: wrong address, login or method. Dead letters would not help.
MISCONFIGURED = frozenset({401, 403, 404, 405, 407})
_HEADER = re.compile(r"^\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*:\s*(.*?)\s*$")


def _headers(text: Secret | None) -> str | None:
    wrong = [part for part in _parts(text) if not _HEADER.match(part)]
    return "must be a list of headers such as X-Tenant: a, X-Region: b" if wrong else None


def _parts(text: Secret | None) -> list[str]:
    return [part for part in text.reveal().split(",") if part.strip()] if text else []


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSinkConfig:
    http_url: str = option("The address to send records to.", importance="HIGH", check=web_address)
    http_method: Literal["POST", "PUT", "PATCH"] = option("The method of the requests.", default="POST")
    http_authorization_type: Literal["none", "static"] = option(
        "static: send http.headers.authorization with each request.", default="none", importance="HIGH"
    )
    http_headers_authorization: Secret | None = option("The header Authorization.", default=None)
    http_headers_content_type: str = option("The header Content-Type.", default="application/json")
    http_headers_additional: Secret | None = option(
        "More headers, separated by commas: X-Tenant: a, X-Region: b", default=None, check=_headers
    )
    http_timeout: int = option("How long a request may take, in seconds.", default=30, check=at_least(1))
    http_ssl_ca_location: str | None = option(
        "A file with the certificates to trust, in PEM format; the default is the system's.", default=None
    )
    http_ssl_trust_all_certs: bool = option(
        "Accept any certificate and any host name. For tests only.", default=False, importance="LOW"
    )
    batching_enabled: bool = option("Send several records in one request.", default=False, importance="HIGH")
    batch_max_size: int = option("Records in a request, with batching.", default=500, check=at_least(1))
    batch_prefix: str = option("The text before the records of a request, such as [.", default="")
    batch_separator: str = option("The text between two records of a request.", default="\n")
    batch_suffix: str = option("The text after the records of a request.", default="\n")
    max_retries: int = option("How often a request is retried when the server is unavailable.", default=3)
    retry_backoff_ms: int = option(
        "The delay before the first retry, which doubles each time. Retry-After of the server can make it longer.",
        default=500,
        check=at_least(1),
    )
    max_in_flight: int = option("Requests at the same time, for different keys.", default=4, check=at_least(1))
    behavior_on_null_values: Literal["ignore", "fail"] = option(
        "What happens to tombstones; fail: they are bad records.", default="ignore"
    )


class Refused(Exception):
    """The server refuses the content of a request."""


@dataclass(slots=True)
class _Lane:
    """Records that are sent one after the other. All records of a key are in the same lane."""

    records: list[Record] = field(default_factory=list)
    delivered: list[TopicPlace] = field(default_factory=list)
    failed: Exception | None = None


class HttpSink(Sink[HttpSinkConfig]):
    """Lanes by key keep order, and send at the same time. After a failure, records that were delivered are not repeated
    as long as the task lives; a task that restarts repeats its last batch.
    """

    Config: ClassVar[type] = HttpSinkConfig

    def __init__(self, config: HttpSinkConfig) -> None:
        super().__init__(config)
        if config.http_authorization_type == "static" and not config.http_headers_authorization:
            raise ValueError('http.authorization.type=static needs the option "http.headers.authorization"')
        self._exchange = Exchange(
            connections=config.max_in_flight,
            timeout_s=config.http_timeout,
            ca_file=config.http_ssl_ca_location,
            trust_all=config.http_ssl_trust_all_certs,
        )
        self._url, self._headers = _requests_of(config)
        self._threads = ThreadPoolExecutor(config.max_in_flight, thread_name_prefix="http-sink")
        # Delivered by a write that failed, and not yet asked for again: never more than one batch.
        self._delivered: set[TopicPlace] = set()

    def write(self, records: Sequence[Record]) -> None:
        lanes = self._lanes(records)
        halted = threading.Event()
        for sending in [self._threads.submit(self._send_lane, lane, halted) for lane in lanes]:
            sending.result()
        asked = {_place(record) for record in records}
        sent = {place for lane in lanes for place in lane.delivered}
        failures = [lane.failed for lane in lanes if lane.failed is not None]
        if not failures:
            self._delivered -= asked
            return
        self._delivered |= sent
        outage = next((each for each in failures if isinstance(each, RetriableError)), None)
        raise outage or failures[0]

    def _lanes(self, records: Sequence[Record]) -> list[_Lane]:
        lanes = [_Lane() for _ in range(self.config.max_in_flight)]
        for record in records:
            if _place(record) not in self._delivered:
                lanes[_lane_of(record) % len(lanes)].records.append(record)
        return [lane for lane in lanes if lane.records]

    def _send_lane(self, lane: _Lane, halted: threading.Event) -> None:
        """A lane ends at its first failure, so that no record overtakes an earlier one of its key."""
        try:
            for some in self._requests(lane.records):
                self._deliver(some, lane, halted)
        except RetriableError as outage:
            halted.set()
            lane.failed = outage
        except BadRecord as bad:
            lane.failed = bad

    def _requests(self, records: list[Record]) -> Iterator[list[Record]]:
        size = self.config.batch_max_size if self.config.batching_enabled else 1
        for start in range(0, len(records), size):
            yield records[start : start + size]

    def _deliver(self, records: list[Record], lane: _Lane, halted: threading.Event) -> None:
        """Sends one request. If the server refuses its content, halves find the record to blame."""
        bodies = [(record, body) for record in records if (body := self._body(record)) is not None]
        try:
            if bodies:
                self._send(bodies, halted)
        except Refused as refused:
            if len(bodies) == 1:
                raise BadRecord(bodies[0][0], str(refused)) from refused
            middle = len(records) // 2
            self._deliver(records[:middle], lane, halted)
            self._deliver(records[middle:], lane, halted)
        else:
            lane.delivered += map(_place, records)

    def _body(self, record: Record) -> bytes | None:
        """None for a tombstone that is to be ignored. Text and bytes as they are, other values as JSON."""
        value = record.value
        if value is None:
            if self.config.behavior_on_null_values == "fail":
                raise BadRecord(record, "the record has no value, and behavior.on.null.values is fail")
            return None
        if isinstance(value, str | bytes):
            return value.encode() if isinstance(value, str) else value
        try:
            return msgspec.json.encode(value)
        except (TypeError, ValueError, OverflowError) as wrong:
            raise BadRecord(record, f"the value cannot be sent as JSON: {wrong}") from wrong

    def _send(self, bodies: Sequence[tuple[Record, bytes]], halted: threading.Event) -> None:
        config, headers = self.config, self._headers
        if config.batching_enabled:
            joined = config.batch_separator.encode().join(body for _, body in bodies)
            body = config.batch_prefix.encode() + joined + config.batch_suffix.encode()
        else:
            ((record, body),) = bodies
            # A receiver can use it to recognize a record that is sent again.
            place = _place(record)
            headers = {**headers, "Idempotency-Key": f"{place.topic}-{place.partition}-{place.offset}"}
        delay_s = config.retry_backoff_ms / 1000
        for retries_left in range(config.max_retries, -1, -1):
            if halted.is_set():
                raise Unreachable(f"{self._url}: another request failed")
            try:
                reply = self._exchange.send(config.http_method, self._url, body, headers, REPLY_BYTES_MAX)
                asked_s = reply.retry_after_s
                failed = self._failure(reply)
            except Unreachable as unreachable:
                failed, asked_s = unreachable, 0.0
            if failed is None:
                return
            if retries_left == 0:
                raise failed
            halted.wait(min(max(delay_s, asked_s), RETRY_DELAY_S_MAX))
            delay_s *= 2

    def _failure(self, reply: Reply) -> RetriableError | None:
        """The error to raise after the last retry. An error that no retry can change is raised at once."""
        if 200 <= reply.status < 300:
            return None
        told = f"{self._url} answers {reply.shown}"
        if reply.is_busy:
            return RetriableError(told)
        if reply.status in MISCONFIGURED or reply.status < 400:
            raise RetriableError(f"{told}. Correct http.url, http.method or http.headers.authorization")
        raise Refused(told)

    def close(self) -> None:
        self._threads.shutdown()
        self._exchange.close()


def _requests_of(config: HttpSinkConfig) -> tuple[str, Mapping[str, str]]:
    url, login = without_login(config.http_url)
    headers = {"Content-Type": config.http_headers_content_type, **login}
    if config.http_headers_authorization and config.http_authorization_type == "static":
        headers["Authorization"] = config.http_headers_authorization.reveal()
    for part in _parts(config.http_headers_additional):
        if found := _HEADER.match(part):
            headers[found[1]] = found[2]
    return url, headers


def _place(record: Record) -> TopicPlace:
    if not isinstance(record.place, TopicPlace):
        raise TypeError(f"a record for a sink has the place {record.place!r}")
    return record.place


def _lane_of(record: Record) -> int:
    """Records without a key keep the order of their partition."""
    place = _place(record)
    what = (place.topic, place.partition) if record.key is None else (place.topic, record.key)
    return zlib.crc32(repr(what).encode())
