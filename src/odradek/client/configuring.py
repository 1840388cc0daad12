"""Client configs as keywords (`linger_ms=5`) or by dotted names, Java's or librdkafka's. All are checked."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping

from odradek.client.java_names import librdkafka_config
from odradek.client.refused import RefusedConfig

BOOTSTRAP_VARIABLE = "ODRADEK_BOOTSTRAP"
BOOTSTRAP = "127.0.0.1:9092"
GISTS_MAX = 1000

Setting = str | int | float | bool

# Configs that are arguments of our clients.
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


def addresses_of(bootstrap: str | None) -> str:
    """The addresses that the program names; otherwise those of ODRADEK_BOOTSTRAP, as for the command line."""
    return os.environ.get(BOOTSTRAP_VARIABLE) or BOOTSTRAP if bootstrap is None else bootstrap


def client_config(bootstrap: str, ours: Mapping[str, Setting], users: Mapping[str, Setting]) -> dict[str, object]:
    """Merges configs; the user's override ours. Raises RefusedConfig."""
    said = {name.replace("_", "."): _text(value) for name, value in users.items()}
    for name in said.keys() & _OUR_WAY.keys():
        raise RefusedConfig(name, "it has its own argument", _OUR_WAY[name])
    own = {name: said.pop(name) for name in said.keys() & _LIBRDKAFKAS_OWN}
    return {
        **{name: _text(value) for name, value in ours.items()},
        **librdkafka_config(said),
        **own,
        "bootstrap.servers": bootstrap,
        "logger": client_logger(),
    }


class SayOnce(logging.Filter):
    """Drops repeated log lines: librdkafka repeats that a broker is unreachable, with other numbers each time."""

    def __init__(self, again_after_s: float = 30.0) -> None:
        super().__init__()
        self._again_after_s = again_after_s
        self._told: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        gist = re.sub(r"\d+", "#", record.getMessage())
        last = self._told.get(gist)
        if last is not None and record.created - last < self._again_after_s:
            return False
        if len(self._told) >= GISTS_MAX:
            self._told.clear()
        self._told[gist] = record.created
        return True


_SAY_ONCE = SayOnce()


def client_logger() -> logging.Logger:
    """For frequent log lines. Lines that differ only in numbers are logged once in 30 s."""
    logger = logging.getLogger("odradek.client")
    logger.addFilter(_SAY_ONCE)  # adding it again has no effect
    return logger


def _text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
