"""The options that every connector has: Kafka Connect's names, and the policy for restarts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from odradek.connect.options import at_least, not_empty, option

ERRORS = "Error Handling"
RESTARTS = "Restarts"
TRANSFORMS = "Transforms"
PREDICATES = "Predicates"
COMMON = "Common"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonOptions:
    name: str = option(
        "The name of this connector, unique in the service.", importance="HIGH", check=not_empty, group=COMMON
    )
    connector_class: str = option("The plug-in: its name or its full class name.", importance="HIGH", group=COMMON)
    tasks_max: int = option(
        "The largest number of tasks.", default=1, importance="HIGH", check=at_least(1), group=COMMON
    )
    key_converter: str | None = option(
        "The format of keys; the default is JSON without schemas.", default=None, group=COMMON
    )
    value_converter: str | None = option(
        "The format of values; the default is JSON without schemas.", default=None, group=COMMON
    )
    header_converter: str | None = option(
        "The format of headers; the default is text, and JSON for other values.", default=None, group=COMMON
    )
    header_converter_options: dict[str, str] = option(
        "Options of the header converter.", default={}, name="header.converter"
    )
    key_converter_options: dict[str, str] = option("Options of the key converter.", default={}, name="key.converter")
    value_converter_options: dict[str, str] = option(
        "Options of the value converter.", default={}, name="value.converter"
    )
    transforms: list[str] = option("Names of the transforms, in order.", default=[], group=TRANSFORMS)
    transforms_options: dict[str, str] = option(
        "Types and options of the transforms.", default={}, name="transforms", group=TRANSFORMS
    )
    predicates: list[str] = option("Names of the predicates of transforms.", default=[], group=PREDICATES)
    predicates_options: dict[str, str] = option(
        "Types and options of the predicates.", default={}, name="predicates", group=PREDICATES
    )
    errors_tolerance: Literal["none", "all"] = option(
        "none: a bad record fails the task. all: it is skipped, or becomes a dead letter.", default="none", group=ERRORS
    )
    errors_retry_timeout: int = option(
        "How long a failed operation is retried, in ms; 0: not at all, -1: forever.",
        default=0,
        group=ERRORS,
        check=at_least(-1),
    )
    errors_retry_delay_max_ms: int = option(
        "The longest delay between two retries, in ms.", default=60_000, group=ERRORS, check=at_least(1)
    )
    errors_log_enable: bool = option("Log each bad record that is skipped.", default=False, group=ERRORS)
    errors_log_include_messages: bool = option("Log the content of bad records too.", default=False, group=ERRORS)
    errors_deadletterqueue_topic_name: str = option(
        "The topic for bad records; empty: they are only counted.", default="", group=ERRORS
    )
    errors_deadletterqueue_topic_replication_factor: int = option(
        "Replicas of that topic when it is created; -1: the cluster's default.",
        default=-1,
        group=ERRORS,
        check=at_least(-1),
    )
    errors_deadletterqueue_context_headers_enable: bool = option(
        "Add headers that say where and why a record failed.", default=False, group=ERRORS
    )
    restart_attempts_max: int = option(
        "How often a failed task is restarted before it stays FAILED. A run of five minutes resets the count.",
        default=10,
        group=RESTARTS,
        check=at_least(0),
    )
    restart_backoff_ms: int = option(
        "The delay before the first restart; it doubles with each.", default=1_000, group=RESTARTS, check=at_least(1)
    )
    restart_backoff_max_ms: int = option(
        "The longest delay before a restart.", default=60_000, group=RESTARTS, check=at_least(1)
    )
    batch_records_max: int = option(
        "The largest number of records that are written at once.", default=2_000, importance="LOW", check=at_least(1)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions(CommonOptions):
    topic_creation: dict[str, str] = option("How missing topics are created: groups, partitions, configs.", default={})
    producer_override: dict[str, str] = option("Configs of the producer.", default={})
    exactly_once_support: Literal["requested", "required"] = option(
        "required: the connector fails on a cluster without transactions, instead of writing at least once.",
        default="requested",
    )
    transaction_boundary: Literal["poll"] = option("Each batch that was read is one transaction.", default="poll")
    poll_interval_ms: int = option(
        "How often an idle source is asked for news.", default=1_000, check=at_least(10), importance="LOW"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions(CommonOptions):
    topics: list[str] = option("The topics to read, separated by commas.", default=[], importance="HIGH")
    topics_regex: str | None = option("A regular expression of topics to read.", default=None, importance="HIGH")
    consumer_override: dict[str, str] = option("Configs of the consumer.", default={})
