"""The configs of a client metrics subscription (KIP-714): which clients push which metrics, and how often.

Patterns are RE2's, as in Kafka: they are matched against text that clients choose, and RE2 needs linear time for any
text. Python's `re` could block the event loop for hours.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from odradek.base.errors import ErrorCode, KafkaError
from odradek.metadata.configs.definition import attributes, definitions, int32, words

ALL_METRICS = "*"
INTERVAL_MS_DEFAULT = 300_000
_INTERVAL_MS_MIN, _INTERVAL_MS_MAX = 100, 3_600_000
_METRICS, _INTERVAL, _MATCH = "metrics", "interval.ms", "match"
# What a client can be matched by.
SELECTORS = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


class Pattern(Protocol):
    def fullmatch(self, text: str) -> object | None: ...


class Selector(NamedTuple):
    name: str  # one of SELECTORS
    pattern: Pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMetricsConfig:
    metrics: tuple[str, ...] = words(
        _METRICS, (), f"Prefixes of the names of the metrics that clients push; {ALL_METRICS} for all metrics."
    )
    interval_ms: int = int32(_INTERVAL, INTERVAL_MS_DEFAULT, "How often a client pushes its metrics, in milliseconds.")
    match: tuple[str, ...] = words(
        _MATCH,
        (),
        f"Which clients push, as name=RE2 pattern; all of them must match. Names: {', '.join(SELECTORS)}.",
    )


CLIENT_METRICS_CONFIGS = definitions(ClientMetricsConfig)
CLIENT_METRICS_ATTRIBUTES = attributes(ClientMetricsConfig)


def client_metrics_config(values: Mapping[str, str]) -> ClientMetricsConfig:
    """The effective config of a subscription: as in Kafka, a word that is repeated in a list counts once.

    Ignores values in a directory of Kafka that are not valid here.
    """
    parsed: dict[str, Any] = {}
    for name, definition in CLIENT_METRICS_CONFIGS.items():
        if name in values:
            with suppress(KafkaError):
                value = definition.parse(values[name])
                parsed[CLIENT_METRICS_ATTRIBUTES[name]] = (
                    tuple(dict.fromkeys(value)) if isinstance(value, tuple) else value
                )
    return ClientMetricsConfig(**parsed)


def validate_client_metrics(name: str, values: Mapping[str, str]) -> None:
    """Raises KafkaError with Kafka's codes. `values` are all those of the subscription after the change."""
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    for key in values:
        if key not in CLIENT_METRICS_CONFIGS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {key}")
    parsed: dict[str, Any] = {key: CLIENT_METRICS_CONFIGS[key].parse(value) for key, value in values.items()}
    for key in (_METRICS, _MATCH):
        _check_list(key, parsed.get(key, ()))
    interval_ms = parsed.get(_INTERVAL, INTERVAL_MS_DEFAULT)
    if not _INTERVAL_MS_MIN <= interval_ms <= _INTERVAL_MS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {interval_ms} for {_INTERVAL}, interval must be between {_INTERVAL_MS_MIN} and "
            f"{_INTERVAL_MS_MAX} (1 hour)",
        )
    selectors(parsed.get(_MATCH, ()))


def _check_list(key: str, values: tuple[str, ...]) -> None:
    if "" in values:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Configuration '{key}' values must not be empty.")


def selectors(match: tuple[str, ...]) -> tuple[Selector, ...]:
    """The last pattern of a name wins, as in Kafka. Raises KafkaError with INVALID_CONFIG."""
    by_name = {}
    for written in match:
        name, _, pattern = written.partition("=")
        name, pattern = name.strip(), pattern.strip()
        if not pattern or name not in SELECTORS:
            raise _illegal(written)
        try:
            by_name[name] = Selector(name, _compiled(pattern))
        except _NotRe2 as broken:
            raise _illegal(f"{written} ({broken})") from None
    return tuple(by_name.values())


def _illegal(written: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {written}")


class _NotRe2(Exception):
    """RE2 cannot read the pattern."""


def _compiled(pattern: str) -> Pattern:
    import re2  # only a cluster with such subscriptions needs it

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)  # type: ignore[no-any-return]
    except re2.error as broken:
        raise _NotRe2(broken.args[0].decode(errors="replace")) from None
