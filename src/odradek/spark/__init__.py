"""The PySpark data source `odradek`: topics as batches and streams, in and out, with the option names of the Kafka connector of Spark."""
