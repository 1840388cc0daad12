"""`postgres-cdc`: changes of a PostgreSQL database, read by logical replication (pgoutput)."""
