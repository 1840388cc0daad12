"""Tables in files: partitioned Parquet, Delta Lake and Iceberg, each append with the offsets that it covers."""
