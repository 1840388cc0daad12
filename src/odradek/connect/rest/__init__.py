"""The HTTP interface of a connect service: Kafka Connect's paths, shapes and status codes."""
