"""The service beside Spark's driver: it decides what should run, starts and stops tasks on Spark, and reports."""
