"""`lake`: records as rows of tables in files: partitioned Parquet, Delta Lake or Iceberg, each record exactly once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from datetime import time as time_of_day
from typing import Any, ClassVar, Literal

import pyarrow as pa

from odradek.connect.arrow import arrow_type
from odradek.connect.interface import BadRecord, RetriableError, Sink, TopicPartition
from odradek.connect.options import Secret, at_least, not_empty, option
from odradek.connect.records import Record, Schema, TopicPlace
from odradek.lake.columns import Columns, DoesNotFit
from odradek.lake.names import Format
from odradek.lake.opening import Tables
from odradek.lake.storage import Storage
from odradek.lake.table import Part, Span, Table, TableUnavailable

UNITS = {"year": "%Y", "month": "%Y-%m", "day": "%Y-%m-%d", "hour": "%Y-%m-%d-%H"}
SCHEMAS_MAX = 1_000
PLACE = ("kafka_topic", "kafka_partition", "kafka_offset", "kafka_timestamp")
_PLACE_TYPES = (pa.string(), pa.int32(), pa.int64(), pa.timestamp("us", tz="UTC"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSinkConfig:
    path: str = option("Where the tables are: a directory, or s3://bucket/prefix.", importance="HIGH", check=not_empty)
    format: Format = option("The format of the tables.", default="parquet", importance="HIGH")
    table_name_format: str = option("The table's name; ${topic} is the topic.", default="${topic}")
    partition_fields: list[str] = option("Divide a table by the values of these fields.", default=[])
    partition_time: Literal["none", "year", "month", "day", "hour"] = option(
        "Divide a table by time, in UTC, with a column of this name.", default="none"
    )
    timestamp_field: str | None = option(
        "The field with the time that partition.time uses; by default the record's timestamp.", default=None
    )
    flush_size: int = option(
        "Files are written when this many records have been gathered.", default=100_000, check=at_least(1)
    )
    flush_bytes: int = option(
        "Files are written when the gathered rows take this many bytes in memory.",
        default=64 * 1024 * 1024,
        check=at_least(1),
    )
    rotate_interval_ms: int = option(
        "Files are written when the oldest gathered record has waited this long.", default=60_000, check=at_least(0)
    )
    kafka_columns: bool = option(f"Add the columns {', '.join(PLACE)}.", default=False)
    behavior_on_null_values: Literal["ignore", "fail"] = option("What a tombstone does.", default="fail")
    delta_compact_every: int = option(
        "Join the small files of a Delta table after this many appends; 0: never.", default=0, check=at_least(0)
    )
    iceberg_compact_every: int = option(
        "Join the small files of an Iceberg table after this many appends; 0: never.", default=0, check=at_least(0)
    )
    iceberg_namespace: str = option("The namespace of the Iceberg tables.", default="lake")
    iceberg_catalog: dict[str, str] = option(
        "Properties of PyIceberg's catalog. The default is a file catalog.db in the directory of the tables.",
        default={},
    )
    s3_endpoint: str | None = option("The URL of a server with S3's protocol; by default AWS.", default=None)
    s3_region: str | None = option("The region of the bucket.", default=None)
    s3_access_key_id: str | None = option("By default from AWS's usual places.", default=None)
    s3_secret_access_key: Secret | None = option("By default from AWS's usual places.", default=None)


@dataclass(slots=True)
class _Gathering:
    """A table, the rows that wait for it, and for each partition the offset before which it has all records."""

    table: Table
    columns: Columns
    known_to: dict[TopicPartition, int] = field(default_factory=dict)
    waiting: dict[TopicPartition, list[pa.Table]] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)


class LakeSink(Sink[LakeSinkConfig]):
    """Gathers records, and appends them with their offsets in one commit of each table.

    The group commits after all tables. After a crash in between, records that a table has already are skipped.
    """

    Config: ClassVar[type] = LakeSinkConfig

    def __init__(self, config: LakeSinkConfig) -> None:
        super().__init__(config)
        self._tables: dict[str, _Gathering] = {}
        self._schemas: dict[Schema, Schema] = {}
        self._started_at: dict[TopicPartition, int | None] = {}
        self._rows = self._bytes = 0
        self._oldest_s = 0.0
        time_columns = () if config.partition_time == "none" else (config.partition_time,)
        secret = config.s3_secret_access_key
        self._place = Tables(
            storage=Storage(
                path=config.path,
                endpoint=config.s3_endpoint,
                region=config.s3_region,
                key_id=config.s3_access_key_id,
                secret=secret.reveal() if secret is not None else None,
            ),
            format=config.format,
            partition_by=[*config.partition_fields, *time_columns],
            delta_compact_every=config.delta_compact_every,
            iceberg_compact_every=config.iceberg_compact_every,
            iceberg_namespace=config.iceberg_namespace,
            iceberg_catalog=config.iceberg_catalog,
        )
        self._place.table("")  # a missing package is an error at once

    # --- gathering

    def positions(self, committed: Mapping[TopicPartition, int | None]) -> Mapping[TopicPartition, int]:
        """Reading starts at the group's offsets: a partition may go to several tables, which know different ends."""
        self._started_at = dict(committed)
        return {}

    def write(self, records: Sequence[Record]) -> None:
        gathered: list[tuple[_Gathering, TopicPartition, pa.Table, int]] = []
        for name, place, some in self._grouped(records):
            gathering = self._gathering(name)
            known_to = self._known_to(gathering, place)
            new = [record for record in some if _place(record).offset >= known_to]
            if new:
                gathered.append((gathering, place, self._arranged(gathering, new), _place(new[-1]).offset + 1))
        # Only now: a record that does not fit must not leave parts of its batch behind.
        for gathering, place, rows, end in gathered:
            if not self._rows:
                self._oldest_s = time.monotonic()
            gathering.waiting.setdefault(place, []).append(rows)
            gathering.ends[place] = max(end, gathering.ends.get(place, 0))
            self._rows += len(rows)
            self._bytes += rows.nbytes

    def _grouped(self, records: Sequence[Record]) -> Iterator[tuple[str, TopicPartition, list[Record]]]:
        """The records of each table, partition and schema, in order for each partition."""
        groups: dict[tuple[str, TopicPartition, int], list[Record]] = {}
        for record in records:
            if record.value is None:
                if self.config.behavior_on_null_values == "fail":
                    raise BadRecord(record, "a tombstone, but behavior.on.null.values is fail")
                continue
            place = _place(record)
            name = self.config.table_name_format.replace("${topic}", record.topic)
            schema = self._same(record.value_schema)
            groups.setdefault((name, (place.topic, place.partition), id(schema)), []).append(record)
        for (name, place_of, _), some in groups.items():
            yield name, place_of, some

    def _gathering(self, name: str) -> _Gathering:
        if name not in self._tables:
            with _outages_told():
                table = self._place.table(name)
                self._tables[name] = _Gathering(table, Columns(table.columns()))
        return self._tables[name]

    def _known_to(self, gathering: _Gathering, place: TopicPartition) -> int:
        if place not in gathering.known_to:
            with _outages_told():
                span = gathering.table.span(self._source(place))
            crashed = span is not None and span.covers(self._started_at.get(place))
            gathering.known_to[place] = span.end if span is not None and crashed else 0
        return gathering.known_to[place]

    def _source(self, place: TopicPartition) -> str:
        return f"{self.connector}/{place[0]}/{place[1]}"

    # --- rows

    def _arranged(self, gathering: _Gathering, records: list[Record]) -> pa.Table:
        declared = self._declared(records[0].value_schema)
        rows = [self._row(record) for record in records]
        try:
            return gathering.columns.arranged(rows, declared)
        except DoesNotFit as failed:
            if len(records) == 1:
                raise BadRecord(records[0], str(failed)) from None
        # One by one, to find the record to blame.
        return pa.concat_tables(
            [self._arranged(gathering, [record]) for record in records], promote_options="permissive"
        )

    def _same(self, schema: Schema | None) -> Schema | None:
        """One object for equal schemas: a converter may make a new one for each record."""
        if schema is None:
            return None
        if len(self._schemas) > SCHEMAS_MAX:
            self._schemas.clear()
        return self._schemas.setdefault(schema, schema)

    def _declared(self, schema: Schema | None) -> dict[str, pa.DataType]:
        """The types of columns that are known before the values."""
        known = {each.name: arrow_type(each.schema) for each in schema.fields} if schema is not None else {}
        return known | dict(zip(PLACE, _PLACE_TYPES, strict=True)) if self.config.kafka_columns else known

    def _row(self, record: Record) -> dict[str, Any]:
        if not isinstance(record.value, dict):
            raise BadRecord(record, f"its value is a {type(record.value).__name__}; a row needs a struct or an object")
        schema = record.value_schema
        row = {
            str(name): _storable(value, is_text=schema is None and isinstance(value, dict | list))
            for name, value in record.value.items()
        }
        if self.config.kafka_columns:
            place = _place(record)
            row |= zip(PLACE, (place.topic, place.partition, place.offset, _written_at(record)), strict=True)
        missing = [name for name in self.config.partition_fields if name not in row]
        if missing:
            raise BadRecord(record, f"it has no field {missing[0]!r}, which partition.fields names")
        if self.config.partition_time != "none":
            row[self.config.partition_time] = self._time(record, row).strftime(UNITS[self.config.partition_time])
        return row

    def _time(self, record: Record, row: Mapping[str, Any]) -> datetime:
        name = self.config.timestamp_field
        value = row.get(name) if name is not None else record.timestamp_ms
        try:
            moment = datetime.fromisoformat(value) if isinstance(value, str) else value
            moment = moment if isinstance(moment, datetime) else _moment(moment)
        except (ValueError, TypeError, OverflowError, OSError):
            moment = None
        if moment is None:
            which = f"its field {name!r} is {value!r}" if name is not None else "it has no timestamp"
            raise BadRecord(record, f"{which}; partition.time needs a time, an ISO text, or milliseconds since 1970")
        return moment.astimezone(UTC) if moment.tzinfo else moment

    # --- files

    def flush(self, *, now: bool) -> bool:
        if not self._rows:
            return True
        if not now and not self._is_due():
            return False
        for gathering in self._tables.values():
            if not gathering.waiting:
                continue
            parts = [
                Part(
                    source=self._source(place),
                    span=Span(_or_none(self.group_offsets.get(place)), gathering.ends[place]),
                    rows=gathering.columns.complete(tables),
                )
                for place, tables in gathering.waiting.items()
            ]
            with _outages_told():
                gathering.table.append(parts, gathering.columns.schema)
            gathering.columns.stored()
            gathering.waiting.clear()
        self._rows = self._bytes = 0
        return True

    def _is_due(self) -> bool:
        return (
            self._rows >= self.config.flush_size
            or self._bytes >= self.config.flush_bytes
            or (time.monotonic() - self._oldest_s) * 1000 >= self.config.rotate_interval_ms
        )


def _place(record: Record) -> TopicPlace:
    if not isinstance(record.place, TopicPlace):
        raise TypeError(f"a record for a sink has the place {record.place!r}")
    return record.place


def _or_none(offset: int | None) -> int:
    return -1 if offset is None else offset


def _written_at(record: Record) -> datetime | None:
    """None also if it is no time: some producers write microseconds."""
    try:
        return _moment(record.timestamp_ms)
    except (ValueError, OverflowError, OSError):
        return None


def _moment(milliseconds: Any) -> datetime | None:  # noqa: ANN401
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, tz=UTC)


def _storable(value: object, *, is_text: bool) -> object:
    """A value as a column holds it: times of day as text; nested values without a schema as JSON."""
    if is_text:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    match value:
        case time_of_day():
            return value.isoformat()
        case dict():
            return {key: _storable(each, is_text=False) for key, each in value.items()}
        case list():
            return [_storable(each, is_text=False) for each in value]
        case _:
            return value


@contextmanager
def _outages_told() -> Iterator[None]:
    try:
        yield
    except TableUnavailable as failed:
        raise RetriableError(str(failed)) from failed
