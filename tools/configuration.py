"""Writes docs/configuration.md from the config definitions of the broker: `python tools/configuration.py`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from odradek.metadata.configs.broker import BROKER_CONFIGS
from odradek.metadata.configs.client_metrics import CLIENT_METRICS_CONFIGS
from odradek.metadata.configs.definition import Definition
from odradek.metadata.configs.topic import TOPIC_CONFIGS
from odradek.metadata.configs.without_meaning import NOT_YET, WITHOUT_MEANING

# Defaults that follow from other configs: the value on the default port.
DERIVED = {"http.listener": "`127.0.0.1:9644`"}

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"

INTRODUCTION = """# Configuration

Names and units are Kafka's. Defaults are Kafka's too, unless the meaning says otherwise.
An unknown key is refused; the error suggests the most similar known key.

| where | how |
|---|---|
| a broker in a terminal | `odradek up -c num.partitions=3` |
| a node of a cluster | `odradek node start --config FILE`: lines as in Kafka's `server.properties`, or a `.toml` |
| a new topic | `odradek topic create orders -c retention.ms=86400000` |
| a topic | `odradek config set topic orders retention.ms=86400000` |
| all topics that do not set it | `odradek config set broker all log.retention.ms=86400000` |
| a running broker | `odradek config set broker 1 log.cleaner.io.max.bytes.per.second=10000000` |
| in a test | `Embedded(config={"num.partitions": 3})` |

`odradek config get topic orders --all` and `odradek config get broker 1 --all` show all values and their sources.
A change takes effect at once and survives restarts. Precedence, highest first: topic, this broker, all brokers, file.
`tools/configuration.py` writes this page.
"""


def page() -> str:
    parts = [
        INTRODUCTION,
        "## Topics\n\nA topic's own value has precedence over the broker keys in the last column. If several of\n"
        "them are set, the first one applies. The first key listed can be changed while brokers run, for one\n"
        "broker or for all.\n",
        _table(TOPIC_CONFIGS.values(), synonyms=True),
        "## Brokers and controllers\n\nAs in Kafka, read-only keys are set before a node starts. Cluster-wide keys\n"
        "can also be changed while it runs, for one broker or for all. In Kafka, `listeners` and\n"
        "`listener.security.protocol.map` can be changed too; here they are read-only.\n",
        _table(
            [definition for definition in BROKER_CONFIGS.values() if not _stands_behind_a_topic(definition.name)],
            synonyms=False,
        ),
        "## Client metrics\n\nThe keys of a subscription to metrics that clients push, set with\n"
        "`odradek config set client-metrics NAME KEY=VALUE`. See [operations.md](operations.md#metrics-of-clients).\n",
        "\n".join(
            ["| key | default | meaning |", "|---|---|---|", *map(_start_of_row, CLIENT_METRICS_CONFIGS.values()), ""]
        ),
        "## Keys of Kafka that have no effect\n\nA node starts with these keys, and logs a warning for each.\n",
        "\n".join(
            ["| key | why |", "|---|---|", *(f"| `{key}` | {why} |" for key, why in sorted(WITHOUT_MEANING.items()))]
        ),
        "\n## Keys of Kafka that are refused\n\nA node with these keys does not start, because\n"
        "it cannot do what they ask for.\n",
        "\n".join(["| keys | why |", "|---|---|", *(f"| `{key}…` | {why} |" for key, why in sorted(NOT_YET.items()))]),
    ]
    return "\n".join(parts) + "\n"


def _stands_behind_a_topic(name: str) -> bool:
    return (
        any(name == synonym.name for topic in TOPIC_CONFIGS.values() for synonym in topic.synonyms)
        and name not in TOPIC_CONFIGS
    )


def _table(definitions: Iterable[Definition], *, synonyms: bool) -> str:
    head = [f"| key | default | meaning | {'broker keys' if synonyms else 'changed'} |", "|---|---|---|---|"]
    rows = [_row(definition, synonyms=synonyms) for definition in definitions if not definition.internal]
    return "\n".join([*head, *rows, ""])


def _row(definition: Definition, *, synonyms: bool) -> str:
    if synonyms:
        last = ", ".join(f"`{synonym.name}`" for synonym in definition.synonyms)
    else:
        last = "cluster-wide" if definition.dynamic else "read-only"
    return f"{_start_of_row(definition)} {last} |"


def _start_of_row(definition: Definition) -> str:
    default = definition.write(definition.default)
    shown = DERIVED.get(definition.name) or (f"`{default}`" if default else "none")
    return f"| `{definition.name}` | {shown} | {definition.doc} |"


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.stdout.write(f"{PAGE.relative_to(Path.cwd())}\n" if PAGE.is_relative_to(Path.cwd()) else f"{PAGE}\n")
