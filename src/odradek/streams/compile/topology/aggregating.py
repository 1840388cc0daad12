"""An aggregate as calls of single functions, and what is made of their results.

`F.array_sort(F.collect_set("kind"))` is a call of collect_set, whose result `__agg0` is sorted afterwards. Spark's own
analysis of the columns is taken apart, so SQL, expressions and Columns are all understood.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from odradek.pipeline.errors import PipelineError
from odradek.streams.engine.steps.aggregates import FUNCTIONS
from odradek.streams.graph.expressions import ColumnLike, column_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SYNONYMS = {
    "mean": "avg",
    "every": "bool_and",
    "some": "bool_or",
    "any": "bool_or",
    "any_value": "first",
    "first_value": "first",
    "last_value": "last",
    "array_agg": "collect_list",
    "stddev": "stddev_samp",
    "std": "stddev_samp",
    "variance": "var_samp",
}
_ARGUMENTS = {"min_by": 2, "max_by": 2}
"""Of most functions it is one, of a count any number."""


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    arguments: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Decomposed:
    calls: tuple[Call, ...]
    results: StructType  # of the calls: __agg0, __agg1, …
    columns: tuple[Column, ...]  # what the user asked for, over those


def decomposed(rows: DataFrame, aggregates: tuple[ColumnLike, ...]) -> Decomposed:
    analysed = rows.groupBy().agg(*[column_of(value) for value in aggregates])
    plan = analysed._jdf.queryExecution().analyzed()  # noqa: SLF001 the one way to Spark's analysis
    walk = _Walk(rows.sparkSession)
    expressions = plan.aggregateExpressions()
    columns = tuple(walk.rewritten(expressions.apply(index), name) for index, name in enumerate(analysed.columns))
    results = rows.groupBy().agg(*[column.alias(f"__agg{n}") for n, column in enumerate(walk.wholes)]).schema
    return Decomposed(tuple(walk.calls), results, columns)


class _Walk:
    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm  # noqa: SLF001
        self.calls: list[Call] = []
        self.wholes: list[Column] = []

    def rewritten(self, named: Any, name: str) -> Column:  # noqa: ANN401 a NamedExpression of Catalyst
        return self._column(self._rewrite(named.child())).alias(name)

    def _rewrite(self, expression: Any) -> Any:  # noqa: ANN401
        if expression.getClass().getSimpleName() == "AggregateExpression":
            self.calls.append(self._call(expression))
            self.wholes.append(self._column(expression))
            return self._attribute(len(self.calls) - 1)
        children = [expression.children().apply(index) for index in range(expression.children().size())]
        if not children:
            return expression
        return expression.withNewChildren(self._seq([self._rewrite(child) for child in children]))

    def _call(self, aggregate: Any) -> Call:  # noqa: ANN401
        function = aggregate.aggregateFunction()
        name = function.prettyName()
        name = SYNONYMS.get(name, name)
        count: int = function.children().size()
        if name not in FUNCTIONS or (name != "count" and count != _ARGUMENTS.get(name, 1)):
            raise _left_to_spark(aggregate)
        arguments = [self._column(function.children().apply(index)) for index in range(count)]
        if name in ("first", "last") and function.ignoreNulls():
            name += " skipping nulls"
        if name in ("collect_list", "collect_set") and not function.ignoreNulls():
            name += " with nulls"
        if aggregate.isDistinct():
            name += " distinct"
        if aggregate.filter().isDefined():  # the arguments of other rows are not computed: they may fail there
            name += " where"
            condition = self._column(aggregate.filter().get())
            arguments = [*(F.when(condition, argument) for argument in arguments), condition]
        return Call(name, tuple(arguments))

    def _attribute(self, number: int) -> Any:  # noqa: ANN401
        return self._jvm.org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute(self._seq([f"__agg{number}"]))

    def _column(self, expression: Any) -> Column:  # noqa: ANN401
        from pyspark.sql.classic.column import Column as ClassicColumn

        return ClassicColumn(self._jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))

    def _seq(self, items: list[Any]) -> Any:  # noqa: ANN401
        return self._jvm.PythonUtils.toSeq(items)


def _left_to_spark(aggregate: Any) -> PipelineError:  # noqa: ANN401
    return PipelineError(
        f"the engine has no aggregate function {aggregate.aggregateFunction().prettyName()} of this kind",
        why=f"Spark reads {aggregate.toString()}",
        instead='another function, or app.sql("SELECT …"), which Spark runs itself',
    )
