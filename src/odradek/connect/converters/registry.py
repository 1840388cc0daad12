"""A client of a schema registry with Confluent's API: registers schemas, and reads them by id."""

from __future__ import annotations

import base64
import json
import struct
import urllib.error
import urllib.parse
import urllib.request
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from odradek.connect.conversion import CannotConvert
from odradek.connect.interface import RetriableError
from odradek.connect.options import Secret, at_least, option

MAGIC = 0
FRAME = struct.Struct(">bI")  # the magic byte, and the schema's id
TIMEOUT_S = 10.0
RESPONSE_BYTES_MAX = 4 << 20
REFERENCES_DEPTH_MAX = 20
CONTENT = "application/vnd.schemaregistry.v1+json"

Kind = Literal["AVRO", "PROTOBUF", "JSON"]


def _strategy(name: str) -> str | None:
    known = ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")
    return None if name.rpartition(".")[2] in known else f"must be one of {', '.join(known)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryOptions:
    schema_registry_url: list[str] = option("The addresses of the registry.", default=[], importance="HIGH")
    schema: str | None = option("The schema of all records, if there is no registry.", default=None)
    auto_register_schemas: bool = option("Register the schemas of new records.", default=True)
    key_subject_name_strategy: str = option(
        "The subject of keys.", default="TopicNameStrategy", check=_strategy, importance="LOW"
    )
    value_subject_name_strategy: str = option(
        "The subject of values.", default="TopicNameStrategy", check=_strategy, importance="LOW"
    )
    basic_auth_credentials_source: Literal["URL", "USER_INFO"] = option(
        "Where user and password are: in the address, or in basic.auth.user.info.", default="URL", importance="LOW"
    )
    basic_auth_user_info: Secret | None = option("user:password", default=None)
    schemas_cache_size: int = option(
        "How many schemas are kept in memory.", default=1000, check=at_least(1), importance="LOW"
    )

    def subject(self, topic: str, record: str | None, *, is_key: bool) -> str:
        strategy = self.key_subject_name_strategy if is_key else self.value_subject_name_strategy
        name = strategy.rpartition(".")[2]
        if name == "TopicNameStrategy":
            return f"{topic}-{'key' if is_key else 'value'}"
        if record is None:
            raise CannotConvert(f"{name} needs a schema with a name, but the schema for {topic!r} has none")
        return record if name == "RecordNameStrategy" else f"{topic}-{record}"


@dataclass(frozen=True, slots=True)
class Stored:
    """A schema in the registry. `references` has the schemas that it refers to, by the names that it uses for them."""

    text: str
    kind: str
    references: Mapping[str, Stored]


class RefusedByRegistry(CannotConvert):
    """The registry does not accept a schema, or does not have it."""


class Registry:
    """Calls the registry once for each schema, and keeps as many results as `schemas.cache.size` says."""

    def __init__(self, options: RegistryOptions) -> None:
        self._options = options
        self._urls = [_address(url) for url in options.schema_registry_url]
        self._ids: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._schemas: OrderedDict[tuple[int, str], Stored] = OrderedDict()

    def id_of(self, subject: str, kind: Kind, schema: str) -> int:
        """The id of a schema in a subject; registers it if `auto.register.schemas` is on."""
        known = self._ids.get((subject, schema))
        if known is not None:
            self._ids.move_to_end((subject, schema))
            return known
        body = {"schema": schema} if kind == "AVRO" else {"schema": schema, "schemaType": kind}
        path = f"/subjects/{urllib.parse.quote(subject, safe='')}"
        found = self._call(f"{path}/versions" if self._options.auto_register_schemas else path, body)
        known = self._ids[subject, schema] = int(found["id"])
        self._trim(self._ids)
        return known

    def schema_of(self, schema_id: int) -> tuple[str, str]:
        """The schema with this id, and its type. Refuses a schema that refers to others."""
        known = self.stored(schema_id)
        if known.references:
            raise RefusedByRegistry(
                f"schema {schema_id} refers to other schemas, which is not supported for {known.kind}"
            )
        return known.text, known.kind

    def stored(self, schema_id: int, query: str = "") -> Stored:
        """The schema with this id, and all schemas that it refers to."""
        known = self._schemas.get((schema_id, query))
        if known is None:
            known = self._whole(self._call(f"/schemas/ids/{schema_id}{query}"), query, 0)
            self._schemas[schema_id, query] = known
            self._trim(self._schemas)
        else:
            self._schemas.move_to_end((schema_id, query))
        return known

    def _whole(self, found: dict[str, Any], query: str, depth: int) -> Stored:
        if depth > REFERENCES_DEPTH_MAX:
            raise RefusedByRegistry(f"schemas refer to others more than {REFERENCES_DEPTH_MAX} levels deep")
        references = {}
        for each in found.get("references") or ():
            path = f"/subjects/{urllib.parse.quote(str(each['subject']), safe='')}/versions/{int(each['version'])}"
            references[str(each["name"])] = self._whole(self._call(path + query), query, depth + 1)
        return Stored(str(found["schema"]), str(found.get("schemaType", "AVRO")), references)

    def _trim(self, cache: OrderedDict[Any, Any]) -> None:
        while len(cache) > self._options.schemas_cache_size:
            cache.popitem(last=False)

    def _call(self, path: str, body: dict[str, str] | None = None) -> dict[str, Any]:
        """The first address that answers. An outage is no fault of a record: it raises RetriableError."""
        failures = []
        for url, login in self._urls:
            try:
                return self._once(url, login, path, body)
            except urllib.error.HTTPError as refused:
                told = f"the schema registry answers {refused.code} to {path}: {_message(refused)}"
                if refused.code in (401, 403) or (refused.code < 500 and refused.code not in (408, 429)):
                    raise RefusedByRegistry(told) from None
                failures.append(told)
            except (OSError, ValueError) as failed:
                failures.append(f"the schema registry at {url} does not answer: {failed}")
        raise RetriableError("; ".join(failures))

    def _once(self, url: str, login: str | None, path: str, body: dict[str, str] | None) -> dict[str, Any]:
        headers = {"Accept": CONTENT, "Content-Type": CONTENT}
        if self._options.basic_auth_credentials_source == "USER_INFO" and self._options.basic_auth_user_info:
            login = self._options.basic_auth_user_info.reveal()
        if login:
            headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url + path, data, headers)  # noqa: S310 (`_address` allows http and https)
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310
            text = answer.read(RESPONSE_BYTES_MAX + 1)
        if len(text) > RESPONSE_BYTES_MAX:
            raise RefusedByRegistry(f"the answer to {path} is larger than {RESPONSE_BYTES_MAX} bytes")
        found = json.loads(text)
        if not isinstance(found, dict):
            raise RefusedByRegistry(f"the answer to {path} is not a JSON object")
        return found


def _address(url: str) -> tuple[str, str | None]:
    """The address without user and password, and these."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f'"schema.registry.url" is {url!r}, but it must be an http or https address')
    login, at, host = parts.netloc.rpartition("@")
    plain = urllib.parse.urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
    return plain, urllib.parse.unquote(login) if at else None


def _message(refused: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(refused.read(10_000))["message"])
    except (ValueError, KeyError, TypeError, OSError):
        return refused.reason


def framed(schema_id: int, body: bytes) -> bytes:
    return FRAME.pack(MAGIC, schema_id) + body


def opened(topic: str, data: bytes) -> tuple[int, bytes]:
    """The schema's id and the body of a record in Confluent's framing."""
    if len(data) < FRAME.size or data[0] != MAGIC:
        raise CannotConvert(f"a record of {topic!r} does not begin with a zero byte and the id of a schema")
    return FRAME.unpack_from(data)[1], data[FRAME.size :]


def one_of(options: RegistryOptions) -> None:
    """Raises ValueError unless the options say where schemas come from."""
    if bool(options.schema_registry_url) == (options.schema is not None):
        raise ValueError('give either "schema.registry.url" or "schema"')
