"""The PySpark data source `odradek`: topics as batches and streams, in and out, as Spark's Kafka connector has them."""
