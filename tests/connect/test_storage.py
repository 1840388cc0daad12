"""The records of the three topics, as Kafka Connect writes them."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.connect.storage.configs import ConfigState, Target, connector_entry, target_entry, task_entries
from odradek.connect.storage.offsets import OffsetState, offset_entries
from odradek.connect.storage.statuses import State, Status, StatusState, status_entry, topic_entry
from odradek.connect.storage.topic_log import Entry


def replayed(state: ConfigState | OffsetState | StatusState, *entries: tuple[bytes, bytes | None]) -> None:
    for key, value in entries:
        state.apply(Entry("topic", key, value))


def written(entries: Iterable[tuple[bytes, bytes | None]]) -> list[tuple[str, str | None]]:
    return [(key.decode(), None if value is None else value.decode()) for key, value in entries]


def test_configs_are_written_as_kafka_connect_writes_them() -> None:
    assert written(connector_entry("in", {"a": "1"})) == [("connector-in", '{"properties":{"a":"1"}}')]
    assert written(connector_entry("in", None)) == [("connector-in", None), ("target-state-in", None)]
    assert written(task_entries("in", [{"a": "1"}])) == [
        ("task-in-0", '{"properties":{"a":"1"}}'),
        ("commit-in", '{"tasks":1}'),
    ]
    assert written(target_entry("in", Target.STOPPED)) == [
        ("target-state-in", '{"state":"PAUSED","state.v2":"STOPPED"}')
    ]


def test_task_configs_count_only_after_their_commit() -> None:
    state = ConfigState()
    replayed(state, *connector_entry("in", {}), (b"task-in-0", b'{"properties":{"n":"0"}}'))
    assert state.tasks == {}
    replayed(state, (b"commit-in", b'{"tasks":1}'))
    assert state.tasks == {"in": ({"n": "0"},)}


def test_a_commit_whose_tasks_were_compacted_away_keeps_the_old_tasks() -> None:
    state = ConfigState()
    replayed(state, *task_entries("in", [{"n": "0"}]), (b"commit-in", b'{"tasks":2}'))
    assert len(state.tasks["in"]) == 1


def test_a_deleted_connector_is_forgotten_with_its_target() -> None:
    state = ConfigState()
    replayed(
        state, *connector_entry("in", {"a": "1"}), *target_entry("in", Target.PAUSED), *connector_entry("in", None)
    )
    assert (state.connectors, state.targets, state.versions) == ({}, {}, {})
    assert state.target("in") is Target.STARTED


def test_unknown_and_damaged_records_are_skipped() -> None:
    state = ConfigState()
    replayed(
        state, (b"session-key", b'{"key":"x"}'), (b"connector-in", b"\xff"), (b"target-state-in", b'{"state":"?"}')
    )
    assert state.targets == {}


def test_offsets_have_the_key_of_kafka_connect_in_any_order_of_the_partition() -> None:
    entries = list(offset_entries("in", [({"b": 1, "a": "x"}, {"position": 5})]))
    assert written(entries) == [('["in",{"a":"x","b":1}]', '{"position":5}')]
    state = OffsetState()
    replayed(state, *entries, (b'["in",{"b":1,"a":"x"}]', b'{"position":6}'))
    assert state.of("in") == [({"b": 1, "a": "x"}, {"position": 6})]
    assert state.at("in", {"a": "x", "b": 1}) == {"position": 6}
    replayed(state, *offset_entries("in", [({"a": "x", "b": 1}, None)]), (b"not json", b"{}"))
    assert state.of("in") == []


def test_statuses_of_names_with_dashes_and_digits() -> None:
    state = StatusState()
    status = Status(state=State.FAILED, worker_id="h:1", trace="why", generation=3)
    replayed(state, status_entry("in-2", 11, status), status_entry("in-2", None, status))
    assert state.tasks == {"in-2": {11: status}}
    assert state.connectors == {"in-2": status}
    replayed(state, status_entry("in-2", 11, None), status_entry("in-2", None, None))
    assert (state.connectors, state.tasks["in-2"]) == ({}, {})


def test_topics_of_connectors() -> None:
    state = StatusState()
    replayed(state, topic_entry("in", "a:b", 1, 5), topic_entry("in", "c", 0, 5))
    assert state.topics == {"in": {"a:b": 1, "c": 0}}
    replayed(state, topic_entry("in", "c", None, 0))
    assert state.topics == {"in": {"a:b": 1}}
