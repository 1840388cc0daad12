"""Configs of topics and brokers: reading them with their sources, and changing one. Secrets are never shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from odradek.base.errors import ErrorCode
from odradek.client.wire import NoAnswer
from odradek.console.collecting.cluster import Cluster
from odradek.console.collecting.figures import error_name
from odradek.console.frame import Refused
from odradek.protocol.messages.p32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from odradek.protocol.messages.p44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

SET, DELETE = 0, 1
# Kafka's codes for the source of a value.
SOURCES = {1: "topic", 2: "this broker", 3: "all brokers", 4: "file", 5: "default", 6: "logger", 7: "client metrics"}
DEFAULT_SOURCE = "default"
TYPES = {1: "boolean", 2: "string", 3: "int", 4: "short", 5: "long", 6: "double", 7: "list", 8: "class", 9: "password"}
_SECRET = re.compile(r"password|secret|credential|jaas|\.key$|token", re.IGNORECASE)


class Kind(Enum):
    TOPIC = 2
    BROKER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    name: str
    value: str | None  # None also for a secret
    source: str
    is_secret: bool
    is_read_only: bool
    type: str
    documentation: str
    # What the value would be without this one: (source, value), the nearest first.
    below: Sequence[tuple[str, str | None]]

    @property
    def is_default(self) -> bool:
        return self.source == DEFAULT_SOURCE

    @property
    def default(self) -> str | None:
        return next((value for source, value in self.below if source == DEFAULT_SOURCE), None)


def read_configs(cluster: Cluster, kind: Kind, name: str) -> list[Config]:
    """Raises Refused."""
    asked = DescribeConfigsResource(resource_type=kind.value, resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[asked], include_synonyms=True, include_documentation=True)
    what = f"The configs of {kind.name.lower()} {name} cannot be read"
    try:
        response = (
            cluster.at(int(name), request, DescribeConfigsResponse)
            if kind is Kind.BROKER
            else cluster.anyone(request, DescribeConfigsResponse)
        )
    except NoAnswer as silent:
        raise Refused(what, str(silent)) from silent
    [result] = response.results
    if result.error_code != ErrorCode.NONE:
        raise Refused(what, result.error_message or error_name(result.error_code))
    return sorted(map(_config, result.configs), key=lambda each: each.name)


def _config(found: DescribeConfigsResourceResult) -> Config:
    is_secret = found.is_sensitive or _SECRET.search(found.name) is not None
    return Config(
        name=found.name,
        value=None if is_secret else found.value,
        source=SOURCES.get(found.config_source, "unknown"),
        is_secret=is_secret,
        is_read_only=found.read_only,
        type=TYPES.get(found.config_type, ""),
        documentation=found.documentation or "",
        below=[
            (SOURCES.get(each.source, "unknown"), None if is_secret else each.value)
            for each in found.synonyms
            if each.source != found.config_source
        ],
    )


def change_config(
    cluster: Cluster,
    kind: Kind,
    name: str,
    key: str,
    value: str | None,
    *,
    for_all: bool = False,
    dry_run: bool = False,
) -> None:
    """None removes the value that was set there. `for_all`: for all brokers, not this one. Raises Refused."""
    operation = AlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value)
    asked = AlterConfigsResource(resource_type=kind.value, resource_name="" if for_all else name, configs=[operation])
    request = IncrementalAlterConfigsRequest(resources=[asked], validate_only=dry_run)
    what = f"{key} was not changed"
    try:
        response = (
            cluster.at(int(name), request, IncrementalAlterConfigsResponse)
            if kind is Kind.BROKER and not for_all
            else cluster.anyone(request, IncrementalAlterConfigsResponse)
        )
    except NoAnswer as silent:
        raise Refused(what, str(silent)) from silent
    [result] = response.responses
    if result.error_code != ErrorCode.NONE:
        raise Refused(what, result.error_message or error_name(result.error_code))
