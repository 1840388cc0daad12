"""Creating a topic: the fields of the form, and presets for frequent purposes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from odradek.base.limits import topic_name_chars_max
from odradek.client.admin import Admin
from odradek.console.frame import Refused

PARTITIONS_MAX = 10_000
REPLICAS_MAX = 100
CONFIGS_MAX = 100
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    name: str
    title: str
    purpose: str
    configs: Mapping[str, str]


PRESETS: Sequence[Preset] = (
    Preset(
        name="events",
        title="Event log",
        purpose="Keeps records for seven days.",
        configs={"cleanup.policy": "delete", "retention.ms": str(7 * 24 * HOUR_MS)},
    ),
    Preset(
        name="table",
        title="Table",
        purpose="Keeps the last record of each key.",
        configs={"cleanup.policy": "compact"},
    ),
    Preset(
        name="short",
        title="Short-lived",
        purpose="Keeps records for an hour, in small segments.",
        configs={"cleanup.policy": "delete", "retention.ms": str(HOUR_MS), "segment.ms": str(HOUR_MS // 6)},
    ),
    Preset(
        name="safe",
        title="Never lose, never delete",
        purpose="Keeps records until you delete them; a write needs two replicas.",
        configs={"cleanup.policy": "delete", "retention.ms": "-1", "min.insync.replicas": "2"},
    ),
    Preset(name="plain", title="Defaults", purpose="The cluster's defaults.", configs={}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicForm:
    """As it was typed."""

    name: str = ""
    partitions: str = ""
    replicas: str = ""
    configs: str = ""  # lines of name=value
    chosen: str = PRESETS[0].name

    @classmethod
    def preset(cls, name: str) -> TopicForm:
        found = next((each for each in PRESETS if each.name == name), PRESETS[0])
        return cls(configs=lines_of(found.configs), chosen=found.name)

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> TopicForm:
        return cls(
            name=fields.get("name", "").strip(),
            partitions=fields.get("partitions", "").strip(),
            replicas=fields.get("replicas", "").strip(),
            configs=fields.get("configs", ""),
            chosen=fields.get("preset", PRESETS[0].name),
        )


def lines_of(configs: Mapping[str, str]) -> str:
    return "\n".join(f"{name}={value}" for name, value in configs.items())


def created(admin: Admin, form: TopicForm) -> None:
    """Raises Refused, ClientError."""
    if not form.name or len(form.name) > topic_name_chars_max or not re.fullmatch(r"[a-zA-Z0-9._-]+", form.name):
        raise Refused(
            "The name cannot be used",
            f"it has 1 to {topic_name_chars_max} letters, digits, dots, dashes and underscores",
        )
    admin.create_topic(
        form.name,
        _number("Partitions", form.partitions, PARTITIONS_MAX),
        _configs(form.configs),
        replication_factor=_number("Replicas", form.replicas, REPLICAS_MAX),
        if_missing=False,
    )


def _number(what: str, text: str, largest: int) -> int:
    """-1, the cluster's default, if the field is empty."""
    if not text:
        return -1
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:9]) <= largest:
        raise Refused(f"{what}: {text[:20]!r} cannot be used", f"expected a number from 1 to {largest}")
    return int(text)


def _configs(text: str) -> dict[str, str]:
    found = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise Refused(f"Configs: {line[:60]!r} cannot be used", "each line is name=value")
        found[name.strip()] = value.strip()
    if len(found) > CONFIGS_MAX:
        raise Refused("Configs", f"at most {CONFIGS_MAX}")
    return found
