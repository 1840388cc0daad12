"""Registers `format("odradek")`: Spark imports every module named pyspark_* and registers its DefaultSource."""

from odradek.spark.source import OdradekDataSource as DefaultSource

__all__ = ["DefaultSource"]
