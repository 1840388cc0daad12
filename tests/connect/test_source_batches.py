"""Batches of a source: which records are written together."""

from __future__ import annotations

from odradek.connect.records import Record, SourcePlace
from odradek.connect.tasks.source_task import Reader


def test_a_batch_ends_only_after_a_record_that_has_a_place() -> None:
    """A delete and its tombstone: written apart, a crash between them would repeat the delete."""
    delete, tombstone = Record(topic="t", key=1, value="d"), Record(topic="t", key=1, place=SourcePlace({}, {"n": 1}))
    other = Record(topic="t", key=2, value="c", place=SourcePlace({}, {"n": 2}))
    reader = Reader({}, None, rest=[delete, tombstone, other])
    assert reader.taken(1) == [delete, tombstone]
    assert reader.taken(1) == [other]
    assert reader.taken(1) == []
