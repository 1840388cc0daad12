"""Odradek: a distributed streaming platform that speaks Kafka's wire protocol."""

__version__ = "0.1.0"
