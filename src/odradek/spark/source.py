"""The PySpark data source `odradek`, for reads and writes of batches and streams."""

# ruff: noqa: N802 (the names are those that Spark calls)

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from odradek.spark.errors import RefusedOption
from odradek.spark.options import ReadOptions, batch_options, read_options, stream_options
from odradek.spark.schema import spark_schema

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter


class OdradekDataSource(DataSource):
    """Has the options and columns of Spark's Kafka connector."""

    options: dict[str, str]

    @classmethod
    def name(cls) -> str:
        return "odradek"

    def schema(self) -> StructType:
        """Called by `load()`, so a wrong option fails here, before a query starts."""
        from odradek.spark import clients

        options = read_options(self.options)
        clients.reading(options, clients.PREFETCH_SMALL)
        return spark_schema(options.include_headers, options.include_position)

    def reader(self, schema: StructType) -> DataSourceReader:
        from odradek.spark.batch_reader import OdradekBatchReader

        options = batch_options(self.options)
        _check_schema(schema, options)
        return OdradekBatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from odradek.spark.stream_reader import OdradekStreamReader, RefusedStreamReader

        try:
            options = stream_options(self.options)
            _check_schema(schema, options)
        except RefusedOption as problem:
            return RefusedStreamReader(problem)
        return OdradekStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from odradek.spark.writer import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: ARG002
        from odradek.spark.writer import stream_writer

        return stream_writer(self.options, schema)


def _check_schema(given: StructType, options: ReadOptions) -> None:
    ours = spark_schema(options.include_headers, options.include_position)
    if given != ours:
        raise RefusedOption(
            "the schema of the source is fixed: leave out .schema(...) and decode the columns "
            f"{', '.join(ours.names)} in the query"
        )
