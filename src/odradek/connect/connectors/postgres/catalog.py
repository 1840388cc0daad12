"""What PostgreSQL's catalog says about tables, their columns, keys and types."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg

TABLES = """
SELECT c.oid, n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname NOT LIKE 'pg\\_%%' AND n.nspname <> 'information_schema' AND c.relpersistence = 'p'
AND (c.relkind = 'r' AND NOT (%(roots)s AND c.relispartition) OR c.relkind = 'p' AND %(roots)s AND NOT c.relispartition)
ORDER BY 2, 3
"""
OID = """
SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s
"""
COLUMNS = """
SELECT attname, atttypid, atttypmod, attnotnull, pg_get_expr(adbin, adrelid)
FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum
"""
# The primary key, otherwise a unique index over columns, as in Debezium.
KEY = """
SELECT array_agg(a.attname::text ORDER BY k.place) FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey[0:i.indnkeyatts - 1]) WITH ORDINALITY AS k(number, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
GROUP BY i.indexrelid, i.indisprimary ORDER BY i.indisprimary DESC, i.indexrelid LIMIT 1
"""
PRIMARY_KEY = """
SELECT array_agg(a.attname::text ORDER BY k.place) FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey[0:i.indnkeyatts - 1]) WITH ORDINALITY AS k(number, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
WHERE i.indrelid = %s AND i.indisprimary
"""
TYPE = """
SELECT t.typname, t.typtype::text, t.typelem, t.typbasetype, t.typtypmod, t.typcategory = 'A',
(SELECT array_agg(enumlabel::text ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid)
FROM pg_type t WHERE t.oid = %s
"""


@dataclass(frozen=True, slots=True)
class TableName:
    oid: int
    schema: str
    table: str


@dataclass(frozen=True, slots=True)
class TableColumn:
    name: str
    type_oid: int
    type_modifier: int
    is_required: bool
    default: str | None = None  # an SQL expression


@dataclass(frozen=True, slots=True)
class PgType:
    """`element` is the type of an array's elements, `base` that of a domain; 0: none."""

    name: str
    kind: str
    element: int
    base: int
    base_modifier: int
    is_array: bool
    labels: tuple[str, ...]


class Catalog:
    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._types: dict[int, PgType] = {}

    def tables(self, *, roots: bool) -> list[TableName]:
        """With `roots` partitioned tables, otherwise their partitions."""
        rows = self._connection.execute(TABLES, {"roots": roots}).fetchall()
        return [TableName(int(oid), schema, table) for oid, schema, table in rows]

    def columns(self, oid: int) -> tuple[TableColumn, ...]:
        rows = self._connection.execute(COLUMNS, [oid]).fetchall()
        return tuple(TableColumn(name, int(kind), *more) for name, kind, *more in rows)

    def key(self, oid: int) -> tuple[str, ...]:
        found = self._connection.execute(KEY, [oid]).fetchone()
        return tuple(found[0]) if found is not None else ()

    def primary_key(self, oid: int) -> tuple[str, ...]:
        """Its columns are never null, and an index has their order."""
        found = self._connection.execute(PRIMARY_KEY, [oid]).fetchone()
        return tuple(found[0] or ()) if found is not None else ()

    def oid(self, schema: str, table: str) -> int | None:
        found = self._connection.execute(OID, [schema, table]).fetchone()
        return int(found[0]) if found is not None else None

    def type(self, oid: int) -> PgType | None:
        """None for a type that was dropped in the meantime."""
        if oid not in self._types:
            found = self._connection.execute(TYPE, [oid]).fetchone()
            if found is None:
                return None
            name, kind, element, base, modifier, is_array, labels = found
            self._types[oid] = PgType(name, kind, int(element), int(base), modifier, is_array, tuple(labels or ()))
        return self._types[oid]
