"""Makes `format("odradek")` known to Spark: it imports every module named pyspark_* and registers its DefaultSource."""

from odradek.spark.source import OdradekDataSource as DefaultSource

__all__ = ["DefaultSource"]
