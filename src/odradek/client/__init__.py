"""Clients for any Kafka cluster, based on librdkafka: producers, consumers, admin calls, and client config names.

from odradek.client import JSON, Consumer, Producer

Modules are imported on first use: the command line starts without librdkafka.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.client.admin import Admin, UnknownTopic
    from odradek.client.async_admin import AsyncAdmin
    from odradek.client.async_consumer import AsyncConsumer
    from odradek.client.async_producer import AsyncProducer
    from odradek.client.consumer import Consumer
    from odradek.client.exporting import export_metrics
    from odradek.client.producer import Producer
    from odradek.client.records import BadRecord, ClientError, Record, SendFailed, Stored, Undelivered, Unsent
    from odradek.client.refused import RefusedConfig
    from odradek.client.serdes import BYTES, FLOAT64, INT64, JSON, TEXT, UUID, Serde, json_of
    from odradek.client.statistics import MetricName
    from odradek.client.transactions import AsyncTransaction, ProducerFenced, Transaction, TransactionAborted

_HOMES = {
    "admin": ("Admin", "UnknownTopic"),
    "async_admin": ("AsyncAdmin",),
    "async_consumer": ("AsyncConsumer",),
    "async_producer": ("AsyncProducer",),
    "consumer": ("Consumer",),
    "exporting": ("export_metrics",),
    "producer": ("Producer",),
    "records": ("BadRecord", "ClientError", "Record", "SendFailed", "Stored", "Undelivered", "Unsent"),
    "refused": ("RefusedConfig",),
    "statistics": ("MetricName",),
    "transactions": ("AsyncTransaction", "ProducerFenced", "Transaction", "TransactionAborted"),
    "serdes": ("BYTES", "FLOAT64", "INT64", "JSON", "TEXT", "UUID", "Serde", "json_of"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "BYTES",
    "FLOAT64",
    "INT64",
    "JSON",
    "TEXT",
    "UUID",
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncTransaction",
    "BadRecord",
    "ClientError",
    "Consumer",
    "MetricName",
    "Producer",
    "ProducerFenced",
    "Record",
    "RefusedConfig",
    "SendFailed",
    "Serde",
    "Stored",
    "Transaction",
    "TransactionAborted",
    "Undelivered",
    "UnknownTopic",
    "Unsent",
    "export_metrics",
    "json_of",
]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
