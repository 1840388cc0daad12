"""Our codecs compared with kio and kafka-python, for every message and version they support."""

from __future__ import annotations

import dataclasses
import importlib
import io
import re
from typing import Any

import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer
import pytest
from kio.serial import entity_reader, entity_writer

from odradek.base.ids import ZERO_UUID
from odradek.protocol.schema import Message, Struct, covers
from support.messages import Instances, api_classes, every_version, message_classes, versions

INSTANCES_PER_VERSION = 6
KAFKA_PYTHON = (kafka.protocol.admin, kafka.protocol.consumer, kafka.protocol.metadata, kafka.protocol.producer)

# Newer than the schemas of both libraries, which follow Kafka 4.3. test_messages has hand-written bytes for these.
NEWER = {("ApiVersions", 5), ("DeleteGroups", 3), ("TxnOffsetCommit", 6)}
# kafka-python, a client, has no schemas of requests between brokers and controllers, nor of telemetry.
NOT_IN_KAFKA_PYTHON = {52, 53, 54, 56, 58, 59, 62, 63, 64, 67, 70, 71, 72, 73, 80, 81, 82}
ROLE = re.compile(r"(Request|Response)?$")


def is_known(cls: type[Message], version: int) -> bool:
    return (ROLE.sub("", cls.__name__, count=1), version) not in NEWER


APIS = [(cls, version) for cls in api_classes() for version in versions(cls) if is_known(cls, version)]
CLIENT_APIS = [(cls, version) for cls, version in APIS if cls.KEY not in NOT_IN_KAFKA_PYTHON]
KIO_RECORDS = [
    (cls, version)
    for cls, version in every_version()
    if cls.__module__.endswith((".control_records", ".consumer_protocol", ".forwarded_principal"))
]


def name_of(value: object) -> str:
    return getattr(value, "__name__", f"v{value}")


def kio_class(cls: type[Message], version: int) -> Any:
    role = ROLE.search(cls.__name__).group().lower() or "data"
    folder = re.sub(r"(?<!^)(?=[A-Z][a-z])", "_", ROLE.sub("", cls.__name__, count=1)).lower()
    return getattr(importlib.import_module(f"kio.schema.{folder}.v{version}.{role}"), cls.__name__)


def agrees(ours: Any, theirs: Any, version: int) -> bool:
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(agrees(*pair, version) for pair in zip(ours, theirs, strict=True))
    if isinstance(ours, Struct):
        rows = [row.name for row in ours.FIELDS if covers(row.versions, version)]
        names = [field.name for field in dataclasses.fields(theirs)]  # kio drops units from names
        pairs = zip(rows, names, strict=True)
        return all(agrees(getattr(ours, row), getattr(theirs, name), version) for row, name in pairs)
    if hasattr(theirs, "total_seconds"):
        return ours == round(theirs.total_seconds() * 1000)
    if hasattr(theirs, "timestamp"):
        return ours == round(theirs.timestamp() * 1000)
    if isinstance(ours, bytes) and len(ours) == 16 and not isinstance(theirs, bytes):
        return ours == (ZERO_UUID if theirs is None else theirs.bytes)
    if theirs is None and ours == -1:
        return True  # kio returns None for an absent timestamp
    return bool(ours == theirs)


@pytest.mark.parametrize(("cls", "version"), APIS + KIO_RECORDS, ids=name_of)
def test_kio_reads_and_writes_the_same_bytes(cls: type[Message], version: int) -> None:
    theirs = kio_class(cls, version)
    read, write = entity_reader(theirs), entity_writer(theirs)
    instances = Instances(version, tame=True)
    for _ in range(INSTANCES_PER_VERSION):
        message = instances.make(cls, version)
        encoded = message.encode(version)
        other, size = read(encoded, 0)
        assert size == len(encoded)
        assert agrees(message, other, version)
        output = io.BytesIO()
        write(output, other)
        assert output.getvalue() == encoded
        assert cls.decode(encoded, version) == message


def kafka_python_class(cls: type[Message]) -> Any:
    return next(getattr(package, cls.__name__) for package in KAFKA_PYTHON if hasattr(package, cls.__name__))


@pytest.mark.parametrize(("cls", "version"), CLIENT_APIS, ids=name_of)
def test_kafka_python_decodes_and_encodes_the_same_bytes(cls: type[Message], version: int) -> None:
    theirs = kafka_python_class(cls)
    instances = Instances(version, tame=True)
    for _ in range(INSTANCES_PER_VERSION):
        message = instances.make(cls, version)
        if cls.__name__ == "ApiVersionsResponse":
            message.error_code = 0  # it decodes a reply with an error as version 0
        encoded = message.encode(version)
        other = theirs.decode(encoded, version)
        other._header = None
        assert bytes(other.encode(version)) == encoded


@pytest.mark.parametrize(("cls", "version"), every_version(), ids=name_of)
def test_every_message_survives_a_round_trip(cls: type[Message], version: int) -> None:
    instances = Instances(version)
    for _ in range(INSTANCES_PER_VERSION):
        message = instances.make(cls, version)
        encoded = message.encode(version)
        assert cls.decode(encoded, version) == message
        assert cls.decode(memoryview(bytearray(b"xx" + encoded + b"yy")), version, 2, 2 + len(encoded)) == message


def test_message_with_defaults_can_be_encoded_in_every_version() -> None:
    for cls in message_classes():
        for version in versions(cls):
            assert cls.decode(cls().encode(version), version) == cls()
