"""Message classes created at run time, like the classes that protoc generates."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2

TYPES = descriptor_pb2.FieldDescriptorProto
ORDER = """
    id int64 | big uint64 | small uint32 | price double | weight float | paid bool | note string? | blob bytes
    state .shop.State | at .google.protobuf.Timestamp | first .shop.Line | lines .shop.Line* | tags string*
    counts map<string,int32> | named map<string,.shop.Line> | nickname .google.protobuf.StringValue
"""


def files() -> descriptor_pb2.FileDescriptorSet:
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    state = file.enum_type.add(name="State")
    for number, name in enumerate(("NEW", "DONE")):
        state.value.add(name=name, number=number)
    _message(file.message_type.add(name="Line"), "sku string | count int32")
    _message(file.message_type.add(name="Tree"), "left .shop.Tree")
    _message(file.message_type.add(name="Order"), ORDER)
    known = [timestamp_pb2.DESCRIPTOR.serialized_pb, wrappers_pb2.DESCRIPTOR.serialized_pb]
    parsed = [descriptor_pb2.FileDescriptorProto.FromString(one) for one in known]
    return descriptor_pb2.FileDescriptorSet(file=[*parsed, file])


def message(name: str) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in files().file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def _message(described: Any, fields: str) -> None:
    for number, text in enumerate(fields.replace("\n", "|").split("|"), 1):
        if text.strip():
            _field(described, number, *text.split())


def _field(described: Any, number: int, name: str, kind: str) -> None:
    if kind.startswith("map<"):
        key, value = kind.removeprefix("map<").removesuffix(">").split(",")
        entry = described.nested_type.add(name=f"{name.capitalize()}Entry")
        entry.options.map_entry = True
        _field(entry, 1, "key", key)
        _field(entry, 2, "value", value)
        kind = f".shop.{described.name}.{entry.name}*"
    label = TYPES.LABEL_REPEATED if kind.endswith("*") else TYPES.LABEL_OPTIONAL
    field = described.field.add(name=name, number=number, label=label)
    if kind.endswith("?"):
        field.proto3_optional = True
        field.oneof_index = len(described.oneof_decl)
        described.oneof_decl.add(name=f"_{name}")
    kind = kind.rstrip("*?")
    if kind.startswith("."):
        field.type_name = kind
        field.type = TYPES.TYPE_ENUM if kind == ".shop.State" else TYPES.TYPE_MESSAGE
    else:
        field.type = TYPES.Type.Value(f"TYPE_{kind.upper()}")
