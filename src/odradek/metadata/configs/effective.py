"""Which value of a key is in force, and where it came from.

Precedence: the topic's own > this broker's dynamic > the cluster-wide dynamic > the broker's static > Kafka's default.
Works on plain mappings of what was set; `in_force` has the same questions asked of an image.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from odradek.base.errors import KafkaError
from odradek.metadata.configs.broker import BROKER_CONFIGS
from odradek.metadata.configs.definition import ConfigSource, Definition, Value, attributes
from odradek.metadata.configs.topic import TOPIC_CONFIGS, TopicConfig

_ATTRIBUTES = attributes(TopicConfig)


class Setting(NamedTuple):
    """One of the places where a value is set."""

    name: str
    source: ConfigSource
    written: str | None


class BrokerLayers(NamedTuple):
    """What was set for one broker, by Kafka's names, in the three places where it can be."""

    dynamic_broker: Mapping[str, str]
    dynamic_default: Mapping[str, str]
    static: Mapping[str, str]

    def settings(self, names: Iterable[str]) -> Iterator[Setting]:
        """Strongest first; ends with the defaults."""
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


def topic_value(definition: Definition, overrides: Mapping[str, str], layers: BrokerLayers) -> Value:
    """What Kafka accepted and this broker does not, in a directory of Kafka's, is passed over."""
    if definition.name in overrides:
        with suppress(KafkaError):
            return definition.parse(overrides[definition.name])
    for synonym in definition.synonyms:
        # A synonym set anywhere beats a weaker synonym: log.retention.ms at its default is unset, not a value.
        for setting in layers.settings([synonym.name]):
            with suppress(KafkaError):
                value = BROKER_CONFIGS[synonym.name].parse(setting.written or "")
                if synonym.factor > 1 and isinstance(value, int):
                    return -1 if value < 0 else value * synonym.factor
                return value
    return definition.default


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
    settings = list(layers.settings(synonym.name for synonym in definition.synonyms))
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


def describe_broker(layers: BrokerLayers) -> list[Described]:
    """Every key of one broker."""
    return [_described_broker_key(definition, layers) for definition in BROKER_CONFIGS.values()]


def _described_broker_key(definition: Definition, layers: BrokerLayers) -> Described:
    own = list(layers.settings([definition.name]))
    return Described(
        definition=definition,
        written=own[0].written if own else None,
        source=own[0].source if own else ConfigSource.DEFAULT,
        synonyms=(*own, *layers.settings(_weaker_names(definition.name))),
        read_only=not definition.dynamic,
    )


def describe_cluster_defaults(dynamic_default: Mapping[str, str]) -> list[Described]:
    """Only what was set for the whole cluster: the broker resource without a name."""
    return [
        Described(
            definition=BROKER_CONFIGS[name],
            written=written,
            source=ConfigSource.DYNAMIC_DEFAULT_BROKER,
            synonyms=(Setting(name, ConfigSource.DYNAMIC_DEFAULT_BROKER, written),),
            read_only=False,
        )
        for name, written in sorted(dynamic_default.items())
        # Kafka may have written this directory, and it has more keys.
        if name in BROKER_CONFIGS
    ]


def _weaker_names(name: str) -> list[str]:
    """Of log.retention.minutes: log.retention.hours."""
    for definition in TOPIC_CONFIGS.values():
        names = [synonym.name for synonym in definition.synonyms]
        if name in names:
            return names[names.index(name) + 1 :]
    return []
