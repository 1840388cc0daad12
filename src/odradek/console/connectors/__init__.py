"""Connectors as the console sees them: over the REST API of connect services, Odradek's or Apache Kafka's."""
