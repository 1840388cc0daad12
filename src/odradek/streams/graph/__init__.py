"""An application as frozen nodes, and what can be said of it without Spark: checks, names, queries, settings."""
