"""The classes of Kafka Connect, Confluent, Debezium and MirrorMaker 2 whose names stand for plug-ins of Odradek.

They are data, not attributes of the plug-ins: to find the plug-in of a name, only that plug-in is imported.
"""

from __future__ import annotations

_KAFKA = "org.apache.kafka.connect"
_CONFLUENT = "io.confluent.connect"

_BY_PLUGIN: dict[str, tuple[str, ...]] = {
    "mirror": (f"{_KAFKA}.mirror.MirrorSourceConnector",),
    "mirror-checkpoints": (f"{_KAFKA}.mirror.MirrorCheckpointConnector",),
    "mirror-heartbeats": (f"{_KAFKA}.mirror.MirrorHeartbeatConnector",),
    "mysql-cdc": ("io.debezium.connector.mysql.MySqlConnector", "io.debezium.connector.mariadb.MariaDbConnector"),
    "avro": (f"{_CONFLUENT}.avro.AvroConverter",),
    "boolean": (f"{_KAFKA}.converters.BooleanConverter",),
    "bytes": (f"{_KAFKA}.converters.ByteArrayConverter",),
    "double": (f"{_KAFKA}.converters.DoubleConverter",),
    "float": (f"{_KAFKA}.converters.FloatConverter",),
    "integer": (f"{_KAFKA}.converters.IntegerConverter",),
    "json": (f"{_KAFKA}.json.JsonConverter",),
    "json-schema": (f"{_CONFLUENT}.json.JsonSchemaConverter",),
    "long": (f"{_KAFKA}.converters.LongConverter",),
    "protobuf": (f"{_CONFLUENT}.protobuf.ProtobufConverter",),
    "short": (f"{_KAFKA}.converters.ShortConverter",),
    "simple-header": (f"{_KAFKA}.storage.SimpleHeaderConverter",),
    "string": (f"{_KAFKA}.storage.StringConverter",),
    "extract-new-record-state": ("io.debezium.transforms.ExtractNewRecordState",),
    "outbox-event-router": ("io.debezium.transforms.outbox.EventRouter",),
}

# Transforms that change the key or the value: the plug-in of `Cast$Value` is `cast`, that of `Cast$Key` `cast-key`.
_OF_A_PART = {
    "cast": "Cast",
    "extract-field": "ExtractField",
    "flatten": "Flatten",
    "header-from": "HeaderFrom",
    "hoist-field": "HoistField",
    "insert-field": "InsertField",
    "mask-field": "MaskField",
    "replace-field": "ReplaceField",
    "set-schema-metadata": "SetSchemaMetadata",
    "timestamp-converter": "TimestampConverter",
}
_OF_RECORDS = {
    "drop-headers": "DropHeaders",
    "filter": "Filter",
    "insert-header": "InsertHeader",
    "regex-router": "RegexRouter",
    "timestamp-router": "TimestampRouter",
    "value-to-key": "ValueToKey",
    "has-header-key": "predicates.HasHeaderKey",
    "record-is-tombstone": "predicates.RecordIsTombstone",
    "topic-name-matches": "predicates.TopicNameMatches",
}


def _of_transforms() -> dict[str, str]:
    classes = dict(_OF_RECORDS)
    for plugin, name in _OF_A_PART.items():
        classes |= {plugin: f"{name}$Value", f"{plugin}-key": f"{name}$Key"}
    found: dict[str, str] = {}
    for plugin, name in classes.items():
        found |= {f"{_KAFKA}.transforms.{name}": plugin, name.removeprefix("predicates."): plugin}
    return found


PLUGIN_OF: dict[str, str] = {name: plugin for plugin, names in _BY_PLUGIN.items() for name in names} | _of_transforms()
"""From the name of a class, in full or for transforms without its package, to the name of an entry point."""
