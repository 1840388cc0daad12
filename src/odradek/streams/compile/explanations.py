"""Spark's errors in our words: what is wrong, the user's line, what to write instead.

Most mistakes are refused by `graph/checks.py` and `api/join_verbs.py` before Spark sees them; this is for the rest.
The first of `EXPLANATIONS` whose pattern is found in Spark's message speaks.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from odradek.pipeline.errors import Origin, PipelineError
from odradek.streams.compile.failures import FAILED_RECORD, RECORD_PLACE
from odradek.streams.graph.column_names import expressions_of
from odradek.streams.graph.expressions import resolving, step_in
from odradek.streams.graph.nodes import Node, Topic, ranked, text_of

LINES_MAX = 12
_FRAME = re.compile(
    r'  File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)\n(?:    [^\n]*\n)*(?P<error>[A-Za-z_][^\n]*)'
)


_CALL_SITE = re.compile(r"\s*== DataFrame ==\s+\"(?P<method>\S+)\" was called from\s+(?P<site>[^\n]+)")
_SQL = re.compile(r"== SQL[^\n]*==\n(?P<text>[^\n]+)\n[ ^]+\s*")


class QueryFailed(PipelineError):
    """A query that ran and stopped."""


@dataclass(frozen=True, slots=True)
class Explanation:
    pattern: str
    what: str
    why: str
    instead: str


RESET = "odradek streams reset APP, which first shows what would go: checkpoints, state, offsets, internal topics"

EXPLANATIONS = (
    Explanation(
        r"UNRESOLVED_COLUMN\..*?name `(?P<column>[^\n]+?)` cannot be resolved(?:.*?following\? \[(?P<near>.*?)\])?",
        "there is no column {column}",
        "close to it there are {near}",
        'one of these, a step before that adds it, or lit("text") for a value that is text',
    ),
    Explanation(
        r"UNRESOLVED_ROUTINE.*?routine `(?P<routine>[^\n]+?)`",
        "Spark has no function {routine}",
        "",
        "a function of Spark SQL, or F.udf for one of your own",
    ),
    Explanation(
        r"PARSE_SYNTAX_ERROR.*?at or near end of input",
        "this SQL ends too early",
        "Spark expects more after its last word; text is taken as SQL wherever a column is expected",
        'the rest of the expression, or lit("text") for a value that is text',
    ),
    Explanation(
        r"PARSE_SYNTAX_ERROR.*?at or near (?P<near>\S+)",
        "this is not SQL that Spark understands, from {near} on",
        "text is taken as SQL wherever a column is expected",
        'lit("text") for a value that is text',
    ),
    Explanation(
        r"NUM_COLUMNS_MISMATCH|INCOMPATIBLE_COLUMN_TYPE|UNRESOLVED_COLUMN_AMONG_FIELD_NAMES",
        "streams with different columns cannot be merged",
        "a row of the result must have the same columns wherever it comes from",
        ".select(...) the same columns of each before .merge",
    ),
    Explanation(
        r"STATE_STORE_(?:KEY|VALUE)_SCHEMA_NOT_COMPATIBLE|STATE_STORE_.*SCHEMA|STATEFUL_OPERATOR_NOT_MATCH|"
        r"TRANSFORM_WITH_STATE_SCHEMA|INCOMPATIBLE_SCHEMA",
        "the state on disk was written by other code than this",
        "columns, keys or the order of steps with state changed, and the state of before does not fit",
        f"the old code, or a new beginning: {RESET}",
    ),
    Explanation(
        r"sources in the checkpoint offsets and now there are|Unexpected number of sources|"
        r"does not match the number of sources",
        "the checkpoint belongs to a query that read other topics",
        "steps are named by kind and order unless they get a name=, so a new one can take the checkpoint of another",
        f"name= on the steps with state, or a new beginning: {RESET}",
    ),
    Explanation(
        r"MULTI_STREAMING_CHECKPOINT|CONCURRENT_STREAM_LOG_UPDATE|CONCURRENT_QUERY|"
        r"Multiple streaming queries are concurrently using",
        "this application runs already with the same state directory",
        "a checkpoint has one writer",
        "another name or state_dir= for the second one, or stop the first",
    ),
    Explanation(
        r"(?s)STREAMING_OUTPUT_MODE.*?without watermark|streaming aggregations without watermark",
        "an aggregate of final results needs event time in its groups",
        "without a window no result ever is final",
        '.group_by(...).window(tumbling("1 minute")), or emit="updates"',
    ),
    Explanation(
        r"(?s)(?P<mode>STREAMING_OUTPUT_MODE|output mode)",
        "Spark cannot give results of this query in that way",
        "which results are final and which are updates depends on the steps with state",
        'the other emit=, or a topic between two steps with state: .through("some-topic")',
    ),
    Explanation(
        r"Stream-stream .*join.*without.*(?:watermark|equality)|watermark.*join|join between two streaming",
        "a join of two streams needs columns that are equal and a bound of time",
        "each row waits in state for rows of the other side; without a bound it would wait for ever",
        '.join(other, on="driverId", within="5 seconds")',
    ),
    Explanation(
        r"Python worker failed to connect back|Timed out while waiting for the Python worker",
        "a Python process of Spark did not start in time",
        "this machine has more to do than it can",
        "a start with less beside it; progress is kept, nothing is lost",
    ),
    Explanation(
        r"Redefining watermark|EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE|watermark",
        "the event time of these rows is not known here",
        "windows and joins of streams need it, and Python functions and SQL that do not hand on `_time` lose it",
        "`_time` among the columns that the function or query gives",
    ),
)


@contextmanager
def explaining(node: Node) -> Iterator[None]:
    """Spark's complaint about what this node asks becomes ours, and every complaint has the node's line."""
    from pyspark.errors import PySparkException

    try:
        with resolving(node.name):
            yield
    except PySparkException as problem:
        raise explained(str(problem), node.origin, node.name) from problem
    except PipelineError as problem:
        problem.locate(node.origin)
        raise


def explained(
    message: str, origin: Origin, step: str, made: Callable[..., PipelineError] = PipelineError
) -> PipelineError:
    for explanation in EXPLANATIONS:
        if found := re.search(explanation.pattern, message):
            words = {name: _shown(value or "") for name, value in found.groupdict().items()}
            why = explanation.why.format(**words) if all(words.values()) else ""
            return made(explanation.what.format(**words), why=why, instead=explanation.instead, origin=origin)
    return made(f"Spark refuses {step}", why=_first_lines(message), origin=origin)


def explained_failure(message: str, trunk: Node, steps: Mapping[str, Node]) -> PipelineError:
    """Why a running query stopped. `steps` are by name, since the message may name the failed step."""
    message = message.split("=== Streaming Query ===", maxsplit=1)[0]  # its plan has the words of every error in it
    raised_by = r"(?:USER_RAISED_EXCEPTION\]|RecordFailed:)"
    if failed := re.search(rf"{raised_by} {FAILED_RECORD} (?P<step>\S+): (?P<rest>[^\n]*)", message):
        node = steps.get(failed["step"], trunk)
        return QueryFailed(
            f"{node.name} cannot handle {_with_topic(_unquoted(failed['rest']), steps)}",
            why="this step has no dead-letter topic for failed records, and records are never dropped silently",
            instead='dlq="some-topic" to set them aside with the reason in their headers, or on_error="skip"',
            origin=node.origin,
        )
    if refused := re.search(r"CheckpointMismatch: (?P<why>[^\n]*)", message):
        return QueryFailed(
            f"the checkpoint of {trunk.name} does not fit what was written",
            why=refused["why"],
            instead="the newest checkpoint, restored; or `odradek streams reset`, to begin again",
            origin=trunk.origin,
        )
    if raised := _raised_in_python(message):
        caller = _caller(raised, steps) or trunk
        return QueryFailed(
            f"a Python function of {_called(caller, trunk)} raised {raised['error']}",
            why=f"in {raised['function']}, {raised['file']}:{raised['line']}",
            instead="a function that can take every row, or dlq= on the step, which sets aside the rows it cannot take",
            origin=caller.origin,
        )
    step = _blamed(message, steps) or trunk
    return explained(_CALL_SITE.sub("", message), step.origin, _called(step, trunk), QueryFailed)


def _called(step: Node, trunk: Node) -> str:
    return f"the query {trunk.name}" if step is trunk else step.name


def _blamed(message: str, steps: Mapping[str, Node]) -> Node | None:
    """The step whose expression a value failed in: Spark says where the expression was made, or its SQL."""
    if site := _CALL_SITE.search(message):
        return steps.get(step_in(site["site"]) or "")
    if sql := _SQL.search(message):
        return next((node for node in steps.values() if any(sql["text"] in text for text in _texts(node))), None)
    return None


def _texts(node: Node) -> list[str]:
    return [text_of(value) for value in expressions_of(node)]


def _with_topic(rest: str, steps: Mapping[str, Node]) -> str:
    """Functions with state know a record by its place in the canonical order, where a topic is a number."""
    topics = ranked(node for node in steps.values() if isinstance(node, Topic))
    return RECORD_PLACE.sub(lambda place: _record(topics[int(place[1])], place[2], place[3]), rest)


def _record(source: Topic, partition: str, offset: str) -> str:
    if len(source.topics) == 1:
        return f"{source.topic}-{partition} at offset {offset}"
    return f"the record at offset {offset} of partition {partition} in {source.topic}"


def _caller(raised: re.Match[str], steps: Mapping[str, Node]) -> Node | None:
    """The step whose function raised."""
    for node in steps.values():
        code = getattr(getattr(node, "function", None), "__code__", None)
        if code is not None and (code.co_filename, code.co_name) == (raised["file"], raised["function"]):
            return node
    return None


def explained_call(problem: Exception, node: Node) -> PipelineError:
    """What a user's function on the driver raised."""
    frames = traceback.extract_tb(problem.__traceback__)
    called = frames[min(1, len(frames) - 1)]  # the first is our call
    return QueryFailed(
        f"{node.name} raised {type(problem).__name__}: {_first_lines(str(problem))}",
        why=f"in {called.name}, {called.filename}:{called.lineno}",
        instead="a function that can take every micro-batch; the one that failed comes again when it runs again",
        origin=node.origin,
    )


def _raised_in_python(message: str) -> re.Match[str] | None:
    """The innermost line of the traceback of a Python worker, and what was raised there."""
    worker = message.rfind("thrown from the Python worker")
    found = list(_FRAME.finditer(message, worker)) if worker >= 0 else []
    return found[-1] if found else None


def _unquoted(text: str) -> str:
    return text.split("SQLSTATE", maxsplit=1)[0].strip(" '\"")


def _first_lines(message: str) -> str:
    lines = [line for line in message.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    return "\n".join(lines[:LINES_MAX])


def _shown(found: str) -> str:
    """Names as the user wrote them; the record behind a row is no column of theirs."""
    return found.replace(", `_record`", "").replace("`", "")
