"""Converts listeners and features of a node between the classes of messages and records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from odradek.metadata.image import FeatureRange, Listener

T = TypeVar("T")


def written_listeners(kind: Callable[..., T], listeners: Iterable[Listener]) -> list[T]:
    return [
        kind(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
        for each in listeners
    ]


def read_listeners(rows: Iterable[Any]) -> tuple[Listener, ...]:
    return tuple(Listener(row.name, row.host, row.port, row.security_protocol) for row in rows)


def written_features(kind: Callable[..., T], features: Mapping[str, FeatureRange]) -> list[T]:
    return [
        kind(name=name, min_supported_version=levels.min_level, max_supported_version=levels.max_level)
        for name, levels in features.items()
    ]


def read_features(rows: Iterable[Any]) -> dict[str, FeatureRange]:
    return {row.name: FeatureRange(row.min_supported_version, row.max_supported_version) for row in rows}
