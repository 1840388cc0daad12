"""Debezium's change events in JSON, with or without the {schema, payload} wrapper, as changes of a table.

A row is `after`, or for a deletion `before`, which needs only the key columns. The time of a change is the database's
(`source.ts_ms`), else the connector's. Times must be text or epoch milliseconds, dates must be text: set the
connector's `time.precision.mode` to `isostring`, and `decimal.handling.mode` to `string` or `double`.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from odradek.pipeline.formats.json_text import CORRUPT, misfits, read_json, unfitting
from odradek.pipeline.formats.reading import (
    Reading,
    Values,
    fault,
    field_value,
    first_fault,
    moment,
    once,
    struct_faults,
)

UPSERTS = ("c", "u", "r")
DELETE = "d"


def debezium_reading(struct: StructType, *, needs_before: bool) -> Reading:
    """`needs_before`: a deletion must have its row in `before`. A table can use the record's key instead."""
    envelope = _envelope(struct)
    wrapped = StructType([*envelope, StructField("payload", envelope)])
    return Reading(
        columns=struct,
        read=lambda: _unwrapped(read_json(F.col("value"), wrapped), envelope),
        value=_value,
        fault=lambda read, values: _fault(read, struct, envelope, values, needs_before=needs_before),
        deleted=lambda read: F.coalesce(read["op"] == DELETE, F.lit(False)),
        time=lambda read: moment(F.coalesce(read["source"]["ts_ms"], read["ts_ms"]), LongType()),
    )


def _value(read: Column, field: StructField) -> Column:
    before, after = field_value(read["before"], field), field_value(read["after"], field)
    return once(F.when(read["op"] == DELETE, before).otherwise(after))


def _envelope(struct: StructType) -> StructType:
    return StructType(
        [
            StructField("before", struct),
            StructField("after", struct),
            StructField("op", StringType()),
            StructField("ts_ms", LongType()),
            StructField("source", StructType([StructField("ts_ms", LongType())])),
        ]
    )


def _unwrapped(read: Column, envelope: StructType) -> Column:
    inner = [F.coalesce(read["payload"][name], read[name]).alias(name) for name in envelope.names]
    return F.when(read.isNotNull(), F.struct(*inner, read[CORRUPT].alias(CORRUPT)))


def _fault(read: Column, struct: StructType, envelope: StructType, values: Values, *, needs_before: bool) -> Column:
    def after(name: str) -> Column:
        text = [F.get_json_object(read[CORRUPT], f"${part}['after']['{name}']") for part in ("['payload']", "")]
        return F.coalesce(*text)

    op, upsert = read["op"], read["op"].isin(*UPSERTS)
    return first_fault(
        [
            unfitting(read, envelope, *misfits(read["after"], struct, after, "after.")),
            F.when(op.isNull(), fault("NotDebezium", "there is no op: this is not a change event")),
            F.when(~upsert & (op != DELETE), fault("NotDebezium", "op '", op, "' is none of c, u, r, d")),
            F.when(upsert & read["after"].isNull(), fault("NotDebezium", "op '", op, "' without the row in `after`")),
            F.when(
                F.lit(needs_before) & (op == DELETE) & read["before"].isNull(),
                fault("NotDebezium", "op 'd' without the row in `before`"),
            ),
            F.when(upsert, first_fault(list(struct_faults(read["after"], struct, "after.", values)))),
        ]
    )
