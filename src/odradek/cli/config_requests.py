"""Describes and alters configs. Not through librdkafka: it cannot name the default of all brokers."""

from __future__ import annotations

from typing import NamedTuple

from odradek.base.errors import ErrorCode
from odradek.cli.asking import ask
from odradek.cli.remote import FAILED, NOT_FOUND, fail, fail_without_topic
from odradek.client.wire import name_of
from odradek.protocol.messages.p03_metadata import MetadataRequest, MetadataResponse
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
from odradek.protocol.messages.p74_list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

KINDS = {"topic": 2, "broker": 4, "logger": 8, "client-metrics": 16}
ALL_BROKERS = "all"
# Kafka's codes of operations.
SET, DELETE, APPEND, SUBTRACT = range(4)


class Change(NamedTuple):
    key: str
    value: str | None
    operation: int


def described(bootstrap: str, kind: str, name: str) -> dict[str, DescribeConfigsResourceResult]:
    asked = DescribeConfigsResource(resource_type=KINDS[kind], resource_name=_name(kind, name), configuration_keys=None)
    response = ask(_whom(bootstrap, kind, name), DescribeConfigsRequest(resources=[asked]), 4, DescribeConfigsResponse)
    [result] = response.results
    _require_success(bootstrap, result.error_code, result.error_message, kind, name)
    return {config.name: config for config in result.configs}


def alter(bootstrap: str, kind: str, name: str, changes: list[Change], *, dry_run: bool) -> None:
    configs = [AlterableConfig(name=key, value=value, config_operation=how) for key, value, how in changes]
    asked = AlterConfigsResource(resource_type=KINDS[kind], resource_name=_name(kind, name), configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[asked], validate_only=dry_run)
    [result] = ask(_whom(bootstrap, kind, name), request, 1, IncrementalAlterConfigsResponse).responses
    _require_success(bootstrap, result.error_code, result.error_message, kind, name)


def listed(bootstrap: str, kind: str) -> list[str]:
    request = ListConfigResourcesRequest(resource_types=[KINDS[kind]])
    response = ask(bootstrap, request, 1, ListConfigResourcesResponse)
    if response.error_code != ErrorCode.NONE:
        fail(f"{kind}: {name_of(response.error_code)}", FAILED)
    return [resource.resource_name for resource in response.config_resources]


def _name(kind: str, name: str) -> str:
    return "" if (kind, name) == ("broker", ALL_BROKERS) else name


def _whom(bootstrap: str, kind: str, name: str) -> str:
    """A broker describes and alters only its own configs."""
    if kind not in ("broker", "logger") or (kind, name) == ("broker", ALL_BROKERS):
        return bootstrap
    brokers = ask(bootstrap, MetadataRequest(topics=[]), 12, MetadataResponse).brokers
    there = next((f"{broker.host}:{broker.port}" for broker in brokers if str(broker.node_id) == name), None)
    if there is None:
        known = ", ".join(str(broker.node_id) for broker in brokers)
        more = f", or `{ALL_BROKERS}` for the default of all" if kind == "broker" else ""
        fail(f'broker "{name}" does not exist. Use {known}{more}', NOT_FOUND)
    return there


def _require_success(bootstrap: str, code: int, message: str | None, kind: str, name: str) -> None:
    if code == ErrorCode.NONE:
        return
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        known = ask(bootstrap, MetadataRequest(topics=None), 12, MetadataResponse).topics
        fail_without_topic(name, [topic.name for topic in known if topic.name])
    why = f"{message} ({name_of(code)})" if message else name_of(code)
    fail(f"{kind} {name}: {why}", FAILED)
