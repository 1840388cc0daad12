"""Columns in a form that survives the way through pandas unchanged, and back.

On that way Spark turns an integer column that holds a null into floating point, a NaN into null and a timestamp into
nanoseconds since 1677. So times travel as integers, nested values as JSON, and which of the numbers were null in a
bit mask of their own. Between `pack` and `unpack` the values are opaque, but plain enough for a state schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from odradek.pipeline.errors import PipelineError

MASK_BITS = 63
"""Nullable columns per mask: a mask is a bigint whose sign stays unused."""

NUMBERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType, T.DoubleType, T.BooleanType)
TIMES = (T.TimestampType, T.TimestampNTZType, T.DateType)
JSON = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"}


@dataclass(frozen=True, slots=True)
class Carriage:
    """The columns `fields`, packed under names that begin with `prefix`; a key has no nulls, and no mask for them."""

    fields: Sequence[T.StructField]
    prefix: str
    is_key: bool = False
    masked: Sequence[T.StructField] = field(init=False)

    def __post_init__(self) -> None:
        for one in self.fields:
            _refuse(one.name, one.dataType)
        nullable = [f for f in self.fields if isinstance(f.dataType, NUMBERS + TIMES)]
        object.__setattr__(self, "masked", [] if self.is_key else nullable)

    @property
    def schema(self) -> T.StructType:
        """The schema of the packed columns. The masks come last."""
        columns = [T.StructField(self._name(i), _packed_type(f.dataType)) for i, f in enumerate(self.fields)]
        return T.StructType(columns + [T.StructField(mask, T.LongType()) for mask in self._masks()])

    def pack(self) -> list[Column]:
        columns = [_pack(f).alias(self._name(i)) for i, f in enumerate(self.fields)]
        for number, mask in enumerate(self._masks()):
            nulls = self.masked[number * MASK_BITS : (number + 1) * MASK_BITS]
            bits = (F.col(quoted(f.name)).isNull().cast("long") * F.lit(1 << bit) for bit, f in enumerate(nulls))
            columns.append(reduce(Column.__add__, bits).alias(mask))
        return columns

    @property
    def nothing(self) -> tuple[int | bool | None, ...]:
        """Packed values of a row that has none of these columns."""
        return tuple(_nothing(f.dataType) for f in self.schema.fields)

    def absent(self) -> list[Column]:
        """The same as columns, in the place of `pack`."""
        return [_filler(f.dataType).alias(f.name) for f in self.schema.fields]

    def unpack(self, present: Column | None = None) -> list[Column]:
        """The columns again; all null where `present` is false."""
        return [self._unpack(i, f, present).alias(f.name) for i, f in enumerate(self.fields)]

    def _unpack(self, index: int, one: T.StructField, present: Column | None) -> Column:
        value = _unpacked(F.col(self._name(index)), one.dataType)
        if one in self.masked:
            number, bit = divmod(self.masked.index(one), MASK_BITS)
            value = F.when(F.col(f"{self.prefix}nulls{number}").bitwiseAND(F.lit(1 << bit)) == 0, value)
        return value if present is None else F.when(present, value)

    def _name(self, index: int) -> str:
        return f"{self.prefix}{index}"

    def _masks(self) -> list[str]:
        return [f"{self.prefix}nulls{n}" for n in range(-(-len(self.masked) // MASK_BITS))]


def _refuse(name: str, kind: T.DataType) -> None:
    if isinstance(kind, T.MapType):
        if not isinstance(kind.keyType, T.StringType):
            raise _cannot_carry(name, kind, "the keys of a map must be strings")
        _refuse(name, kind.valueType)
    elif isinstance(kind, T.ArrayType):
        _refuse(name, kind.elementType)
    elif isinstance(kind, T.StructType):
        for inner in kind.fields:
            _refuse(f"{name}.{inner.name}", inner.dataType)
    elif not isinstance(kind, NUMBERS + TIMES + (T.StringType, T.BinaryType, T.DecimalType)):
        raise _cannot_carry(name, kind, "cast it to a string or a number before")


def _cannot_carry(name: str, kind: T.DataType, instead: str) -> PipelineError:
    return PipelineError(f"a step with state cannot take column {name} of type {kind.simpleString()}", instead=instead)


def _is_nested(kind: T.DataType) -> bool:
    return isinstance(kind, T.StructType | T.ArrayType | T.MapType)


def _packed_type(kind: T.DataType) -> T.DataType:
    if isinstance(kind, T.DateType):
        return T.IntegerType()
    if isinstance(kind, TIMES):
        return T.LongType()
    return T.StringType() if _is_nested(kind) else kind


def _pack(one: T.StructField) -> Column:
    column, kind = F.col(quoted(one.name)), one.dataType
    if isinstance(kind, T.DateType):
        column = F.unix_date(column)
    elif isinstance(kind, TIMES):
        column = F.unix_micros(column.cast("timestamp"))
    elif _is_nested(kind):
        return F.when(column.isNotNull(), F.to_json(F.struct(column.alias("v")), JSON))
    return F.coalesce(column, _filler(_packed_type(kind))) if isinstance(kind, NUMBERS + TIMES) else column


def _unpacked(column: Column, kind: T.DataType) -> Column:
    if isinstance(kind, T.DateType):
        return F.date_from_unix_date(column)
    if isinstance(kind, TIMES):
        return F.timestamp_micros(column).cast(kind)
    if _is_nested(kind):
        return F.from_json(column, T.StructType([T.StructField("v", kind)]), JSON)["v"]
    if isinstance(kind, T.FloatType | T.DoubleType):
        return F.coalesce(column, F.lit(float("nan")).cast(kind))
    return column


def _nothing(packed: T.DataType) -> int | bool | None:
    if isinstance(packed, T.BooleanType):
        return False
    return 0 if isinstance(packed, NUMBERS) else None


def _filler(packed: T.DataType) -> Column:
    return F.lit(_nothing(packed)).cast(packed)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
