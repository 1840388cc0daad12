"""Kafka's built-in transforms and predicates, and two of Debezium's, with their names, options and behaviour."""
