"""Configs as keywords: `linger_ms=5` or Kafka's dotted names in a dict, Java's or librdkafka's, all of them checked."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from odradek.client.java_names import librdkafka_config
from odradek.client.refused import RefusedConfig

BOOTSTRAP = "127.0.0.1:9092"

Setting = str | int | float | bool

# Where a pipeline has other ways than a client of one's own.
_OUR_WAY = {
    "key.serializer": "key=str, key=odradek.client.JSON, …",
    "key.deserializer": "key=str, key=odradek.client.JSON, …",
    "value.serializer": "value=str, value=odradek.client.JSON, …",
    "value.deserializer": "value=str, value=odradek.client.JSON, …",
    "partitioner.class": "partitioner=a function of key, value and number of partitions",
    "auto.offset.reset": "start='earliest' or 'latest'",
    "enable.auto.commit": "auto_commit=False",
    "enable.auto.offset.store": "auto_commit=False",
    "enable.partition.eof": "stop_at_end=True",
    "group.id": "group='…'",
    "bootstrap.servers": "the address as bootstrap",
}
_LIBRDKAFKAS_OWN = {"partition.assignment.strategy"}


def client_config(bootstrap: str, ours: Mapping[str, Setting], users: Mapping[str, Setting]) -> dict[str, object]:
    """What the user says goes before what we would choose; RefusedConfig names what cannot be."""
    said = {name.replace("_", "."): _text(value) for name, value in users.items()}
    for name in said.keys() & _OUR_WAY.keys():
        raise RefusedConfig(name, "it is an argument of its own", _OUR_WAY[name])
    own = {name: said.pop(name) for name in said.keys() & _LIBRDKAFKAS_OWN}
    return {
        **{name: _text(value) for name, value in ours.items()},
        **librdkafka_config(said),
        **own,
        "bootstrap.servers": bootstrap,
        "logger": logging.getLogger("odradek.client"),
    }


def _text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
