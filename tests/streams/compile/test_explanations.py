"""Spark's errors, as Spark 4.3 words them, in ours."""

from __future__ import annotations

import pytest

from odradek.streams import App
from odradek.streams.api.rows import node_of
from odradek.streams.compile.explanations import QueryFailed, explained, explained_failure


def node():
    return node_of(App("t").stream("clicks", schema="user string"))


@pytest.mark.parametrize(
    ("spark_says", "we_say"),
    [
        (
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `usr` cannot "
            "be resolved. Did you mean one of the following? [`user`, `_key`]. SQLSTATE: 42703;\n'Project ['usr]",
            ["there is no column usr", "user, _key"],
        ),
        (
            "[UNRESOLVED_COLUMN.WITHOUT_SUGGESTION] A column, variable, or function parameter with name `usr` cannot "
            "be resolved. SQLSTATE: 42703",
            ["there is no column usr"],
        ),
        (
            "[UNRESOLVED_ROUTINE] Cannot resolve routine `foo` on search path [`system`.`builtin`]. SQLSTATE: 42883",
            ["no function foo", "F.udf"],
        ),
        ("[PARSE_SYNTAX_ERROR] Syntax error at or near '>'. SQLSTATE: 42601", ["not SQL", "lit("]),
        ("[PARSE_SYNTAX_ERROR] Syntax error at or near end of input. SQLSTATE: 42601", ["ends too early", "the rest"]),
        (
            '[UNRESOLVED_COLUMN_AMONG_FIELD_NAMES] Cannot resolve column name "name" among (x, nme). SQLSTATE: 42703',
            ["cannot be merged", ".select(...)"],
        ),
        (
            "[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] Provided value schema does not match existing state schema.",
            ["written by other code", "odradek streams reset"],
        ),
        (
            "[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] Streaming stateful operator name does not match",
            ["written by other code", "odradek streams reset"],
        ),
        (
            "assertion failed: There are [1] sources in the checkpoint offsets and now there are [2] sources requested "
            "by the query. Cannot continue.",
            ["read other topics", "odradek streams reset", "name="],
        ),
        (
            "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs detected for 3.",
            ["runs already", "state_dir="],
        ),
        (
            "[STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] Invalid streaming output mode: append. This output mode is "
            "not supported for streaming aggregations without watermark on streaming DataFrames/DataSets.",
            ["needs event time", "tumbling"],
        ),
        (
            "[STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] Invalid streaming output mode: update. This output mode is "
            "not supported for session window streaming aggregations on streaming DataFrames/DataSets.",
            ["cannot give results", "emit="],
        ),
        (
            "Stream-stream LeftOuter join between two streaming DataFrame/Datasets is not supported without a "
            "watermark in the join keys, or a watermark on the nullable side and an appropriate range condition",
            ["bound of time", "within="],
        ),
        ("Something nobody has seen.\n\tat org.apache.spark.Foo", ["Spark refuses", "Something nobody has seen."]),
    ],
)
def test_each_error_names_the_line_and_the_fix(spark_says, we_say):
    told = str(explained(spark_says, node().origin, "clicks"))
    assert "test_explanations.py:" in told
    for words in we_say:
        assert words in told
    assert "at org.apache" not in told


def test_a_function_that_raises_is_named_with_its_line():
    clicks = node()
    failed = explained_failure(
        "PythonException: An exception was thrown from the Python worker:\n"
        "Traceback (most recent call last):\n"
        '  File "pyspark/worker.py", line 4327, in invoke_udf\n'
        "    run_process()\n"
        '  File "shop.py", line 12, in total\n'
        "    return a.sum + b.sum\n"
        "           ^^^^^\n"
        "AttributeError: 'dict' object has no attribute 'sum'\n"
        "\n\tat org.apache.spark.api.python",
        clicks,
        {},
    )
    assert "raised AttributeError: 'dict' object has no attribute 'sum'" in failed.what
    assert failed.why == "in total, shop.py:12"


def test_a_record_that_fails_is_named_with_the_step_that_failed():
    clicks = node()
    failed = explained_failure(
        "Job aborted\n[USER_RAISED_EXCEPTION] ODRADEK_FAILED_RECORD clicks: clicks-0 at offset 17: WrongType: field n: "
        "'x' is no int SQLSTATE: P0001\n\tat org.apache",
        clicks,
        {"clicks": clicks},
    )
    assert isinstance(failed, QueryFailed)
    assert failed.what == "clicks cannot handle clicks-0 at offset 17: WrongType: field n: 'x' is no int"
    assert "dlq=" in failed.instead
    assert failed.origin == clicks.origin


def test_a_record_that_a_function_with_state_fails_at_is_named_by_its_topic():
    app = App("t")
    orders, users = app.stream("orders", schema="id string"), app.table("a", key="id", schema="id string")
    several = app.stream(pattern="logs-.*", schema="id string", name="logs")
    steps = {node.name: node for node in map(node_of, (orders, several, users))}

    def told(place: str) -> str:
        text = f"RecordFailed: ODRADEK_FAILED_RECORD orders: record {place}: ValueError: no"
        return explained_failure(text, node_of(orders), steps).what

    assert told("0/0/5") == "orders cannot handle a-0 at offset 5: ValueError: no"
    assert told("2/3/17") == "orders cannot handle orders-3 at offset 17: ValueError: no"
    assert "the record at offset 17 of partition 3 in topics matching logs-.*" in told("1/3/17")


def test_error_in_a_fold_names_the_line_of_its_step():
    app = App("t")

    def total(one, row):
        return one

    source = app.stream("orders", schema="id string")
    fold = node_of(source.group_by("id").aggregate(0, total, "n int"))
    failed = explained_failure(
        "PythonException: An exception was thrown from the Python worker:\n"
        "Traceback (most recent call last):\n"
        f'  File "{__file__}", line 12, in total\n'
        "    return one\n"
        "KeyError: 1\n",
        node_of(source),
        {"orders": node_of(source), fold.name: fold},
    )
    assert failed.what == "a Python function of fold-1 raised KeyError: 1"
    assert failed.origin == fold.origin


def test_checkpoint_that_does_not_fit_is_no_failure_of_a_function():
    orders = App("shop").stream("orders", schema="n int")
    text = "odradek.spark.errors.CheckpointMismatch: shop.orders.0.0 has already written micro-batch 7\nmore"
    failed = explained_failure(text, node_of(orders), {})
    assert failed.what == "the checkpoint of orders does not fit what was written"
    assert failed.why == "shop.orders.0.0 has already written micro-batch 7"
