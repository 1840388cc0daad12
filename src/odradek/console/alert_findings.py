"""Firing alerts as problems for the verdict, and the pages where alerts are looked into. Without I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import quote

from odradek.console.collecting.alerts import Instance, KnownAlert, KnownAlerts, State, instances
from odradek.console.finding import Finding, Level
from odradek.console.words import counted

FINDINGS_MAX = 5
# The verdict sees these itself, with their causes.
_SEEN = frozenset(
    {
        "UnderReplicatedPartitions",
        "UnderMinIsrPartitions",
        "OfflineReplicas",
        "DiskNearlyFull",
        "DiskFull",
        "LateTransactions",
        "NoMetadataLeader",
        "NoActiveController",
        "FencedBrokers",
        "OfflinePartitions",
        "ConsumerGroupStuck",
        "ConsumerGroupFallsBehind",
        "NoActiveConnectService",
        "ConnectorTaskFailed",
        "ConnectorTaskRestarts",
        "ConnectorRecordsSkipped",
    }
)
_PATHS = {
    "UnderReplicatedPartitions": "/topics?show=problems",
    "UnderMinIsrPartitions": "/topics?show=problems",
    "OfflinePartitions": "/topics?show=problems",
    "LateTransactions": "/transactions?show=problems",
    "TransactionMarkersStuck": "/transactions?show=ending",
    "NoMetadataLeader": "/quorum",
    "NoActiveController": "/quorum",
    "MetadataLag": "/quorum",
    "FencedBrokers": "/brokers",
    "NoActiveConnectService": "/connect",
    "ConnectorTaskFailed": "/connect",
    "ConnectorTaskRestarts": "/connect",
    "ConnectorRecordsSkipped": "/connect",
    "ReplicationSlotHoldsLog": "/connect",
}


def findings(value: object) -> Iterator[Finding]:
    if not isinstance(value, KnownAlerts):
        return
    found = [
        (alert, one)
        for alert, one in instances(value.alerts, State.FIRING)
        if alert.alert.name not in _SEEN
        and not (alert.alert.name == "TargetDown" and one.labels.get("instance") in value.silent)
    ]
    for alert, one in found[:FINDINGS_MAX]:
        yield Finding(
            level=Level.BAD if alert.is_critical else Level.WARN,
            what=_sentence(one.summary),
            why=f"The alert {alert.alert.name} fires: {alert.alert.expression}",
            step=_first("".join(one.action)),
            path=f"/alerts/{alert.alert.name}",
        )
    if len(found) > FINDINGS_MAX:
        yield Finding(
            level=Level.WARN,
            what=counted(len(found) - FINDINGS_MAX, "more alert fires", "more alerts fire"),
            why="Each has a meaning and a next step of its own",
            step="Look at the list of alerts",
            path="/alerts",
        )


def path_of(alert: KnownAlert, one: Instance) -> str:
    """The page where one looks into it; empty if it is only the page of the alert."""
    if group := one.labels.get("consumer_group"):
        return f"/groups/{quote(group, safe='')}"
    if path := _PATHS.get(alert.alert.name):
        return path
    broker = _broker(one.labels)
    return f"/brokers/{broker}" if broker is not None else ""


def _broker(labels: Mapping[str, str]) -> int | None:
    kind, _, number = labels.get("instance", "").partition(" ")
    return int(number) if kind == "broker" and number.isdecimal() else None


def _sentence(text: str) -> str:
    """The first sentence. The first letter of a name, such as that of a connector, stays as it is."""
    found = text.split(". ", maxsplit=1)[0].rstrip(".")
    return found[:1].upper() + found[1:] if found.startswith("broker ") else found


def _first(text: str) -> str:
    """The first sentence or two of what to do."""
    sentences = text.split(". ")
    few = sentences[0] if len(sentences[0]) > 60 else ". ".join(sentences[:2])
    return few.rstrip(".")
