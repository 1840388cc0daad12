"""Converters: JSON, Avro, Protobuf and JSON Schema, with and without a schema registry, and single plain values."""
