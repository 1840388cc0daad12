"""Sends and reads the records of a test as Python dicts, in the format that the application declares.

Keys are text, as the application writes them: plain text for one column, a JSON object for several.
"""

from __future__ import annotations

import dataclasses
import enum
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from odradek.client.admin import Admin
from odradek.client.configuring import client_logger
from odradek.pipeline.formats import (
    Avro,
    Debezium,
    Delimited,
    Format,
    Json,
    Protobuf,
    Raw,
    columns_of,
    format_of,
    protobuf,
)
from odradek.pipeline.formats.avro_schemas import avro_schema_of
from odradek.streams.graph.nodes import Node, Topic
from odradek.streams.graph.sinks import TopicSink

READ_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An output record. `value` is decoded with the sink's format, or bytes if it cannot be decoded."""

    key: Any
    value: Any
    headers: Mapping[str, bytes | None]
    partition: int
    offset: int
    timestamp: datetime


class InputTopic:
    """Sends records to a topic that the application reads."""

    def __init__(self, bootstrap: str, topic: str, node: Topic, *, before: Callable[[Topic], None]) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._node = node
        self._before = before
        self._format = format_of(node.format)

    def send(
        self,
        *values: object,
        key: object = None,
        at: str | datetime | None = None,
        headers: Mapping[str, bytes | None] | None = None,
        partition: int = -1,
    ) -> None:
        """Each value becomes a record: dicts, dataclasses and pydantic models in the format of the topic, text and
        bytes unchanged, None as a record without a value.

        at: the record's timestamp. It also fills the application's time column if the value does not have it.
        key: bytes, text, or the value of a key column. The default for a table is the key columns of the value.
        """
        self._before(self._node)
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 0, "logger": client_logger()})
        problems: list[Any] = []
        for value in values:
            producer.produce(
                self._topic,
                self._encoded(value, at),
                self._key(value, key),
                partition,
                timestamp=0 if at is None else int(moment(at).timestamp() * 1000),
                headers=list((headers or {}).items()),
                on_delivery=lambda problem, _: problems.append(problem) if problem else None,
            )
        producer.flush()
        if problems:
            raise RuntimeError(f"not sent to {self._topic}: {problems[0]}")

    def delete(self, *keys: object, at: str | datetime | None = None) -> None:
        """Sends a record without a value for each key, which deletes the row of a table."""
        for key in keys:
            self.send(None, key=key, at=at)

    def _key(self, value: object, key: object) -> bytes | None:
        if key is None and self._node.table_key and (row := _as_dict(value)) is not None:
            columns = {name: row.get(name) for name in self._node.table_key}
            key = columns if len(columns) > 1 else next(iter(columns.values()))
        if key is None:
            return None
        return key if isinstance(key, bytes) else key_text(key).encode()

    def _encoded(self, value: object, at: str | datetime | None) -> bytes | None:
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, str):
            return value.encode()
        row = _as_dict(value)
        if row is None:
            raise TypeError(f"cannot send {value!r}: send a dict, a dataclass, a pydantic model, text, bytes or None")
        if at is not None and self._node.time is not None and row.get(self._node.time) is None:
            row[self._node.time] = self._time_value(moment(at))
        return encoded(row, self._format, self._node.schema)

    def _time_value(self, at: datetime) -> object:
        """The value of the time column: milliseconds for a numeric column, else the datetime itself."""
        kind = columns_of(self._format, self._node.schema)[self._node.time or ""].dataType.simpleString()
        return int(at.timestamp() * 1000) if kind in ("bigint", "int") else at


class OutputTopic:
    """Records that the application wrote to a topic, in partition order. Each read continues after the last one."""

    def __init__(self, bootstrap: str, topic: str, node: Node, *, before: Callable[[], None]) -> None:
        self._topic = topic
        self._format = format_of(node.format) if isinstance(node, Topic | TopicSink) else Json()
        self._schema = node.schema if isinstance(node, Topic | TopicSink) else None
        self._before = before
        self._cluster = Admin(bootstrap)
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "odradek-test-driver",
                "enable.auto.commit": False,
                "enable.partition.eof": True,  # the last offset may be that of a transaction's marker
                "logger": client_logger(),
            }
        )
        self._positions: dict[int, int] = {}

    def read(self) -> list[Record]:
        self._before()
        found = []
        for partition, end in sorted(self._cluster.end_offsets(self._topic).items()):
            found += self._read(partition, end)
        return found

    def read_values(self) -> list[Any]:
        return [record.value for record in self.read()]

    def read_keyed(self) -> list[tuple[Any, Any]]:
        return [(record.key, record.value) for record in self.read()]

    def close(self) -> None:
        self._consumer.close()

    def _read(self, partition: int, end: int) -> list[Record]:
        found: list[Record] = []
        position = self._positions.get(partition, 0)
        self._consumer.assign([TopicPartition(self._topic, partition, position)])
        while position < end:
            message = self._consumer.poll(READ_TIMEOUT_S)
            if message is not None and is_end(message):
                position = max(position, message.offset())
                continue
            if message is None or message.error():
                raise TimeoutError(f"{self._topic}-{partition} should have records up to offset {end}: {message}")
            found.append(self._record(message))
            position = message.offset() + 1
        self._positions[partition] = end
        return found

    def _record(self, message: Any) -> Record:  # noqa: ANN401 a message of librdkafka
        return Record(
            key=_decoded_key(message.key()),
            value=decoded(message.value(), self._format, self._schema),
            headers=dict(message.headers() or ()),
            partition=message.partition(),
            offset=message.offset(),
            timestamp=datetime.fromtimestamp(message.timestamp()[1] / 1000, UTC),
        )


def is_end(message: Message) -> bool:
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF  # noqa: SLF001 (librdkafka's own name)


def encoded(row: dict[str, Any], format_: Format, schema: Any) -> bytes:  # noqa: ANN401 any schema
    match format_:
        case Avro():
            import fastavro

            stream = io.BytesIO()
            fastavro.schemaless_writer(stream, avro_schema_of(schema), row)
            return stream.getvalue()
        case Protobuf():
            return protobuf.encode(row, format_.described) or b""
        case Delimited(separator):
            names = columns_of(format_, schema).names
            return separator.join("" if row.get(name) is None else key_text(row[name]) for name in names).encode()
        case Raw():
            raise TypeError(f"the topic is raw: send text or bytes, not {row!r}")
        case Json() | Debezium():
            return json.dumps(row, default=_json_value, ensure_ascii=False).encode()


def decoded(value: bytes | None, format_: Format, schema: Any) -> Any:  # noqa: ANN401
    """A dict, or text for a format without columns, or bytes if the value cannot be decoded."""
    if value is None:
        return None
    try:
        match format_:
            case Avro() if schema is not None:
                import fastavro

                return fastavro.schemaless_reader(io.BytesIO(value), avro_schema_of(schema), None)
            case Json() | Debezium():
                return json.loads(value)
            case Protobuf():
                return protobuf.decode(value, format_.described)
            case Avro():
                return value
        return value.decode()
    except (ValueError, protobuf.NotProtobuf):  # dead letters, and other values that are not in the sink's format
        return value


def key_text(key: object) -> str:
    """A key as `encoding` writes it."""
    match key:
        case bytes():
            return key.decode()
        case str():
            return key
        case bool():
            return str(key).lower()
        case Mapping():
            return json.dumps(key, default=_json_value, separators=(",", ":"), ensure_ascii=False)
        case int() | float():
            return str(key)
    return str(_json_value(key))


def moment(at: str | datetime) -> datetime:
    """A point in time. Without a zone it is UTC."""
    time = datetime.fromisoformat(at) if isinstance(at, str) else at
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _decoded_key(key: bytes | None) -> Any:  # noqa: ANN401
    if key is None:
        return None
    try:
        text = key.decode()
        return json.loads(text) if text.startswith("{") else text
    except ValueError:
        return key


def _as_dict(value: object) -> dict[str, Any] | None:
    if isinstance(value, Mapping):
        return dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    dump = getattr(value, "model_dump", None)
    return None if dump is None else dump(by_alias=True)


def _json_value(value: object) -> object:
    match value:
        case datetime():
            return moment(value).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        case date():
            return value.isoformat()
        case enum.Enum():
            return value.value
        case Decimal():
            return float(value)
        case UUID():
            return str(value)
    raise TypeError(f"{value!r} cannot be written as JSON")
