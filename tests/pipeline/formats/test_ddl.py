"""Schemas in DDL are checked without Spark: certain errors are refused, Spark checks everything else."""

from __future__ import annotations

import pytest

from odradek.pipeline.formats.ddl import columns_of_ddl, mistake_in


@pytest.mark.parametrize(
    ("ddl", "what", "instead"),
    [
        ("id itn", "'id' has the type 'itn'", '"id int"'),
        ("id int, name strng NOT NULL", "'name' has the type 'strng'", '"name string"'),
        ("at datetime", "'datetime'", '"at timestamp"'),
        ("tags array<sting>", "'tags'", '"tags string"'),
        ("m map<string, dubble>", "'dubble'", '"m double"'),
        ("p struct<x: int, y: array<flot>>", "'p.y' has the type 'flot'", '"y float"'),
        ("user foo", "'foo'", "a type of Spark"),
        ("id int name string", "a comma is missing after the column 'id'", '"id int, name string"'),
        ("id, name string", "'id' has no type", '"id string"'),
        ("int", "one type, not a list of columns", '"name int"'),
    ],
)
def test_ddl_that_spark_would_refuse_is_refused(ddl, what, instead):
    told = mistake_in(ddl)
    assert told is not None
    assert what in told[0]
    assert instead in told[1]


@pytest.mark.parametrize(
    "ddl",
    [
        "id INT, name String NOT NULL, n decimal(10, 2), v variant, at timestamp_ntz",
        "a int COMMENT 'one, two', `b,c` varchar(10) DEFAULT 'x', d string collate UTF8_LCASE",
        "id: long, p: struct<x: int COMMENT 'a', y: map<string, array<struct<z: date>>>>",
        "i interval day to second, t timestamp without time zone",
        "a ?",
        "",
    ],
)
def test_ddl_that_may_be_valid_is_accepted(ddl):
    assert mistake_in(ddl) is None


def test_commas_in_quotes_and_brackets_do_not_separate_columns():
    assert columns_of_ddl("`a,b` int, m map<string, int>, c string comment 'x, y'") == [
        ("a,b", "int"),
        ("m", "map<string, int>"),
        ("c", "string comment 'x, y'"),
    ]
