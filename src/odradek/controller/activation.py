"""What a controller writes first when it becomes active."""

from __future__ import annotations

from odradek.controller.decision import Decision
from odradek.metadata.features import METADATA_VERSION
from odradek.metadata.image import ClusterImage
from odradek.protocol.metadata_records import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from odradek.protocol.schema import Message


def activate(image: ClusterImage, bootstrap: tuple[Message, ...]) -> Decision[None]:
    """An empty log gets the bootstrap records; a transaction that its writer did not end is aborted."""
    records: list[Message] = []
    told: list[str] = []
    if image.transaction is not None:
        records.append(AbortTransactionRecord(reason="Controller failover"))
        told.append("aborted the metadata transaction that the last controller left open")
    if METADATA_VERSION not in image.features:
        records += [BeginTransactionRecord(name="Bootstrap records"), *bootstrap, EndTransactionRecord()]
        told.append(f"the metadata log is empty: wrote {len(bootstrap)} bootstrap record(s)")
    return Decision(records=tuple(records), response=None, sentence="; ".join(told))
