"""How a format converts a record, and the expressions that all formats share.

There are three steps, and no work is repeated: read the record, make values from the result, find faults in both.
A fault is a struct of exception and message, null for a good record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from odradek.pipeline.formats.schemas import ALLOWED, DEFAULT

YEAR_10000_MS = 253_402_300_800_000


Values = Callable[[str], Column]
"""The converted columns of a record, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    columns: StructType
    read: Callable[[], Column]  # over the raw columns of a record
    value: Callable[[Column, StructField], Column]  # makes a column from the result of `read`
    fault: Callable[[Column, Values], Column]
    null_value_is_fine: bool = False
    deleted: Callable[[Column], Column] | None = (
        None  # for formats that mark deletions themselves, besides the null value
    )
    time: Callable[[Column], Column] | None = (
        None  # event time, for formats that have it; null: use the record's timestamp
    )


def fault(exception: str, *message: Column | str) -> Column:
    parts = [F.lit(part) if isinstance(part, str) else part for part in message]
    return F.struct(F.lit(exception).alias("exception"), F.concat(*parts).alias("message"))


def first_fault(faults: list[Column]) -> Column:
    return F.coalesce(F.lit(None).cast("struct<exception:string,message:string>"), *faults)


def once(costly: Column) -> Column:
    """Stops Spark from computing an expression twice. Spark does so when it pushes a later filter below a step.

    Spark does not move non-deterministic expressions, and the partition id is the cheapest of these.
    """
    return F.when(F.spark_partition_id() >= 0, costly)


def moment(column: Column, data_type: DataType) -> Column:
    """A time from a timestamp, epoch milliseconds or ISO 8601 text. Null if it is none of these or after year 9999."""
    if isinstance(data_type, TimestampType):
        time = column
    elif isinstance(data_type, StringType):
        # most times are ISO 8601, and a failed match costs a tenth of a failed cast
        number = F.when(column.rlike(r"^-?\d{1,18}$"), moment(column.cast("bigint"), LongType()))
        return F.coalesce(number, moment(column.try_cast("timestamp"), TimestampType()))
    else:
        # timestamp_millis throws on overflow, and that exception would end the query
        return F.when(F.abs(column) < YEAR_10000_MS, F.timestamp_millis(column.cast("bigint")))
    return F.when(F.unix_millis(time) < YEAR_10000_MS, time)


def wire_struct(struct: StructType) -> StructType:
    return StructType([StructField(f.name, wire_type(f.dataType)) for f in struct])


def wire_type(data_type: DataType) -> DataType:
    """The type in which a value is read from text: a time is text or a number, and `moment` converts it later."""
    match data_type:
        case TimestampType():
            return StringType()
        case StructType():
            return wire_struct(data_type)
        case ArrayType():
            return ArrayType(wire_type(data_type.elementType))
        case MapType():
            return MapType(data_type.keyType, wire_type(data_type.valueType))
    return data_type


def mended(wire: Column, data_type: DataType) -> Column:
    """The value of a type from its wire form: times converted, defaults in place of missing fields."""
    if not needs_mending(data_type):
        return wire
    match data_type:
        case TimestampType():
            return moment(wire, StringType())
        case StructType():
            return F.when(wire.isNotNull(), F.struct(*(field_value(wire, f).alias(f.name) for f in data_type)))
        case ArrayType():
            return F.transform(wire, lambda element: mended(element, data_type.elementType))
        case MapType():
            return F.transform_values(wire, lambda _, value: mended(value, data_type.valueType))
    return wire


def column_value(read: Column, field: StructField) -> Column:
    value = field_value(read, field)
    return once(value) if needs_mending(field.dataType) else value


def field_value(wire: Column, field: StructField) -> Column:
    value = mended(wire[field.name], field.dataType)
    if DEFAULT not in field.metadata:
        return value
    default = field.metadata[DEFAULT]
    if default == []:
        return F.coalesce(value, F.array().cast(field.dataType))
    if default == {}:
        return F.coalesce(value, F.create_map().cast(field.dataType))
    return F.coalesce(value, F.lit(default).cast(field.dataType))


def struct_faults(wire: Column, struct: StructType, path: str = "", values: Values | None = None) -> Iterator[Column]:
    """The faults in the fields of a struct that is not null, in field order. `values`: the converted fields."""
    for field in struct:
        name = f"{path}{field.name}"
        inner = wire[field.name]
        if not field.nullable:
            yield F.when(inner.isNull(), fault("MissingField", f"required field {name} is missing or null"))
        if allowed := field.metadata.get(ALLOWED):
            listed = ", ".join(map(repr, allowed))
            yield F.when(
                ~inner.isin(allowed),
                fault("WrongValue", f"field {name}: ", inner.cast("string"), f" is not one of {listed}"),
            )
        yield from type_faults(inner, field.dataType, name, values(field.name) if values else None)


def type_faults(wire: Column, data_type: DataType, path: str, value: Column | None = None) -> Iterator[Column]:
    """The faults inside a value, if it is not null."""
    match data_type:
        case TimestampType():
            yield F.when(
                wire.isNotNull() & (moment(wire, StringType()) if value is None else value).isNull(),
                fault(
                    "WrongType",
                    f"field {path}: '",
                    wire,
                    "' is neither ISO 8601 time nor epoch milliseconds before year 10000",
                ),
            )
        case StructType():
            inner = list(struct_faults(wire, data_type, f"{path}."))
            if inner:
                yield F.when(wire.isNotNull(), first_fault(inner))
        case ArrayType():
            yield from _element_faults(wire, data_type.elementType, data_type.containsNull, f"{path}[]")
        case MapType():
            yield from _element_faults(
                F.map_values(wire), data_type.valueType, data_type.valueContainsNull, f"{path}{{}}"
            )


def _element_faults(elements: Column, data_type: DataType, nullable: bool, path: str) -> Iterator[Column]:
    def faults(element: Column) -> list[Column]:
        null = F.when(element.isNull(), fault("MissingField", f"{path} holds a null"))
        return [*([] if nullable else [null]), *type_faults(element, data_type, path)]

    if faults(F.lit(None).cast(wire_type(data_type))):
        found = F.transform(elements, lambda element: first_fault(faults(element)))
        yield F.get(F.filter(found, lambda one: one.isNotNull()), F.lit(0))


def all_nullable(data_type: DataType) -> DataType:
    match data_type:
        case StructType():
            return StructType([StructField(f.name, all_nullable(f.dataType)) for f in data_type])
        case ArrayType():
            return ArrayType(all_nullable(data_type.elementType))
        case MapType():
            return MapType(data_type.keyType, all_nullable(data_type.valueType))
    return data_type


def needs_mending(data_type: DataType) -> bool:
    return wire_type(data_type) != all_nullable(data_type) or _has_defaults(data_type)


def _has_defaults(data_type: DataType) -> bool:
    match data_type:
        case StructType():
            return any(DEFAULT in f.metadata or _has_defaults(f.dataType) for f in data_type)
        case ArrayType():
            return _has_defaults(data_type.elementType)
        case MapType():
            return _has_defaults(data_type.valueType)
    return False
