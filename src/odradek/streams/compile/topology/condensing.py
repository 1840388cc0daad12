"""The plan of a query with its projections merged: Spark optimises a plan again for each micro-batch.

A lane is made step by step, so an application has hundreds of projections, and merging them takes most of the time that
Spark spends on a small micro-batch. It is done once here, by Spark's own rules; the next time they change nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RULES = (
    "CollapseProject",
    "SimplifyExtractValueOps",
    "ColumnPruning",
    "RemoveRedundantAliases",
    "ConstantFolding",
    "NullPropagation",
    "BooleanSimplification",
    "SimplifyConditionals",
    "PushFoldableIntoBranches",
    "OptimizeCsvJsonExprs",
    "CombineUnions",
    "RemoveNoopOperators",
)
UNFIT = (
    "catalyst.optimizer.FoldablePropagation",
    "catalyst.optimizer.OptimizeOneRowRelationSubquery",
    "catalyst.optimizer.RewriteCorrelatedScalarSubquery",
    "execution.datasources.SchemaPruning",
    "execution.datasources.PushVariantIntoScan",
    "execution.datasources.PruneFileSourcePartitions",
)
"""Rules for what these plans do not have: subqueries, files."""

DONE = (
    *(f"org.apache.spark.sql.catalyst.optimizer.{name}" for name in RULES),
    *(f"org.apache.spark.sql.{n}" for n in UNFIT),
)
"""Rules that a micro-batch of a condensed plan can do without."""

ROUNDS_MAX = 10


def condensed(frame: DataFrame) -> DataFrame:
    spark = frame.sparkSession
    jvm: Any = spark._jvm  # noqa: SLF001 there is no public way to a plan
    optimizer = jvm.org.apache.spark.sql.catalyst.optimizer
    rules = [getattr(getattr(optimizer, f"{name}$"), "MODULE$") for name in RULES]
    plan: Any = frame._jdf.queryExecution().analyzed()  # noqa: SLF001
    for _ in range(ROUNDS_MAX):
        before = plan
        for rule in rules:
            plan = rule.apply(plan)
        if plan.fastEquals(before):
            break
    made = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan)  # noqa: SLF001
    return ClassicDataFrame(made, spark)
