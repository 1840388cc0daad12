"""The effective value of a key, and its source.

Precedence: the topic's own > this broker's dynamic > the cluster-wide dynamic > the broker's static > Kafka's default.
Works on plain mappings of the values that were set; `in_force` does the same for an image.

Describes the same as Kafka: the sources from the first one on that sets the key's own name. If only
`log.retention.hours` is set, `retention.ms` of a topic is described as a default, and `log.retention.ms` as null.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import dropwhile
from typing import Any, NamedTuple

from odradek.base.errors import KafkaError
from odradek.metadata.configs.broker import BROKER_CONFIGS, DYNAMIC_ATTRIBUTES, BrokerConfig
from odradek.metadata.configs.client_metrics import (
    CLIENT_METRICS_ATTRIBUTES,
    CLIENT_METRICS_CONFIGS,
    client_metrics_config,
)
from odradek.metadata.configs.definition import ConfigSource, Definition, Value, attributes
from odradek.metadata.configs.topic import TOPIC_CONFIGS, TopicConfig

_ATTRIBUTES = attributes(TopicConfig)
# Of log.retention.minutes: log.retention.hours.
_WEAKER_NAMES = {
    synonym.name: [weaker.name for weaker in definition.synonyms[position + 1 :]]
    for definition in TOPIC_CONFIGS.values()
    for position, synonym in enumerate(definition.synonyms)
}


class Setting(NamedTuple):
    """A source of values."""

    name: str
    source: ConfigSource
    written: str | None


class BrokerLayers(NamedTuple):
    """The values that were set for one broker in its three sources, by Kafka's names."""

    dynamic_broker: Mapping[str, str]
    dynamic_default: Mapping[str, str]
    static: Mapping[str, str]

    def settings(self, names: Iterable[str]) -> Iterator[Setting]:
        """Highest precedence first; ends with the defaults."""
        names = list(names)
        for source, layer in (
            (ConfigSource.DYNAMIC_BROKER, self.dynamic_broker),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, self.dynamic_default),
            (ConfigSource.STATIC_BROKER, self.static),
        ):
            for name in names:
                if name in layer:
                    yield Setting(name, source, layer[name])
        for name in names:
            definition = BROKER_CONFIGS[name]
            if definition.default is not None:
                yield Setting(name, ConfigSource.DEFAULT, definition.write(definition.default))


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One row of DescribeConfigs."""

    definition: Definition
    written: str | None
    source: ConfigSource
    synonyms: tuple[Setting, ...]
    read_only: bool


def broker_value(name: str, layers: BrokerLayers) -> Value:
    """Ignores values in a directory of Kafka that this broker does not accept."""
    for setting in layers.settings([name]):
        with suppress(KafkaError):
            return BROKER_CONFIGS[name].parse(setting.written or "")
    return None


def topic_value(definition: Definition, overrides: Mapping[str, str], layers: BrokerLayers) -> Value:
    if definition.name in overrides:
        with suppress(KafkaError):
            return definition.parse(overrides[definition.name])
    for synonym in definition.synonyms:
        # A synonym that is set anywhere overrides synonyms of lower precedence. A default does not count as set.
        value = broker_value(synonym.name, layers)
        if value is None:
            continue
        if synonym.factor > 1 and isinstance(value, int):
            return -1 if value < 0 else value * synonym.factor
        return value
    return definition.default


def broker_config(config: BrokerConfig, layers: BrokerLayers) -> BrokerConfig:
    """The broker's config with the effective values of its dynamic keys."""
    changes: dict[str, Any] = {attribute: broker_value(name, layers) for name, attribute in DYNAMIC_ATTRIBUTES.items()}
    return replace(config, **changes)


def topic_config(overrides: Mapping[str, str], layers: BrokerLayers) -> TopicConfig:
    return TopicConfig(
        **{
            _ATTRIBUTES[name]: topic_value(definition, overrides, layers)  # type: ignore[arg-type]
            for name, definition in TOPIC_CONFIGS.items()
        }
    )


def describe_topic(overrides: Mapping[str, str], layers: BrokerLayers) -> list[Described]:
    return [
        _described_topic_key(definition, overrides, layers)
        for name, definition in TOPIC_CONFIGS.items()
        if name in overrides or not definition.internal
    ]


def _described_topic_key(definition: Definition, overrides: Mapping[str, str], layers: BrokerLayers) -> Described:
    settings = _described_settings([synonym.name for synonym in definition.synonyms], layers)
    written = definition.write(topic_value(definition, overrides, layers))
    if definition.name in overrides:
        settings.insert(0, Setting(definition.name, ConfigSource.TOPIC, written))
    return Described(
        definition=definition,
        written=written,
        source=settings[0].source if settings else ConfigSource.DEFAULT,
        synonyms=tuple(settings),
        read_only=False,
    )


def _described_settings(names: Sequence[str], layers: BrokerLayers) -> list[Setting]:
    """`names` begins with the requested key."""
    return list(dropwhile(lambda setting: setting.name != names[0], layers.settings(names)))


def describe_broker(layers: BrokerLayers) -> list[Described]:
    """Every key of one broker."""
    return [
        _described_broker_key(definition, layers)
        for name, definition in BROKER_CONFIGS.items()
        if name in layers.static or not definition.internal
    ]


def _described_broker_key(definition: Definition, layers: BrokerLayers) -> Described:
    settings = _described_settings([definition.name, *_WEAKER_NAMES.get(definition.name, ())], layers)
    return Described(
        definition=definition,
        written=definition.write(broker_value(definition.name, layers)),
        source=settings[0].source if settings else ConfigSource.DEFAULT,
        synonyms=tuple(settings),
        read_only=not definition.dynamic,
    )


def describe_cluster_defaults(dynamic_default: Mapping[str, str]) -> list[Described]:
    """Only values that were set for the whole cluster: the broker resource without a name."""
    return [
        Described(
            definition=BROKER_CONFIGS[name],
            written=written,
            source=ConfigSource.DYNAMIC_DEFAULT_BROKER,
            synonyms=(Setting(name, ConfigSource.DYNAMIC_DEFAULT_BROKER, written),),
            read_only=False,
        )
        for name, written in sorted(dynamic_default.items())
        # A directory of Kafka may have more keys.
        if name in BROKER_CONFIGS
    ]


def describe_client_metrics(values: Mapping[str, str]) -> list[Described]:
    """Every key of a client metrics subscription."""
    config = client_metrics_config(values)
    rows = []
    for name, definition in CLIENT_METRICS_CONFIGS.items():
        written = definition.write(getattr(config, CLIENT_METRICS_ATTRIBUTES[name]))
        own = (Setting(name, ConfigSource.CLIENT_METRICS, written),) if name in values else ()
        rows.append(
            Described(
                definition=definition,
                written=written,
                source=own[0].source if own else ConfigSource.DEFAULT,
                synonyms=own,
                read_only=False,
            )
        )
    return rows
