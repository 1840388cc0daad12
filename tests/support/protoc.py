"""Protobuf's own compiler, from PyPI: texts of .proto files as descriptors."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import grpc_tools
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

INCLUDED = Path(grpc_tools.__file__).parent / "_proto"
# Files that registries know, and protoc does not.
KNOWN = {
    "confluent/type/decimal.proto": (
        'syntax = "proto3"; package confluent.type; '
        "message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }"
    ),
    "google/type/date.proto": (
        'syntax = "proto3"; package google.type; message Date { int32 year = 1; int32 month = 2; int32 day = 3; }'
    ),
    "google/type/timeofday.proto": (
        'syntax = "proto3"; package google.type; '
        "message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }"
    ),
}


def compiled(files: Mapping[str, str]) -> FileDescriptorSet:
    """All files and what they import."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (KNOWN | dict(files)).items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        out = Path(folder) / "all"
        command = ["protoc", f"-I{folder}", f"-I{INCLUDED}", "--include_imports", f"--descriptor_set_out={out}", *files]
        assert protoc.main(command) == 0, files
        return FileDescriptorSet.FromString(out.read_bytes())


def serialized(name: str, files: Mapping[str, str]) -> FileDescriptorProto:
    return next(each for each in compiled(files).file if each.name == name)
