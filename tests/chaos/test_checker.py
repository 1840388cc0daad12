"""The checker of chaos runs: a correct history passes, and each kind of anomaly is found in a modified one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.checker import KINDS, check
from chaos.history import Diary, Event, identity_of, read_history, value_of
from chaos.replica_files import compare, producers_of
from chaos.report import BEGIN, END, record, table
from chaos.run import Outcome
from chaos.timeline import draw
from odradek.protocol.batch import encode_batch
from odradek.protocol.records import Record

PLACE = "t-0"


def sound() -> list[Event]:
    """A writer's three acknowledged records, a reader, a group that hands a partition over, and the final read."""
    values = ["w:0", "w:1", "w:2"]
    return [
        line("w", "acked", records=[[0, 0], [1, 1]]),
        line("nemesis", "fault", kind="kill a node", said="[1]"),
        line("r", "assigned", assignment=1, at=0),
        line("r", "polled", assignment=1, at=0, values=values[:2]),
        line("m1", "fetched", group="g", began=4.5, offset=-1),
        line("m1", "assigned", assignment=1, at=0),
        line("m1", "polled", assignment=1, at=0, values=values[:2]),
        line("m1", "committing", group="g", commit="m1/1", offset=2),
        line("m1", "committed", commit="m1/1"),
        line("nemesis", "healed"),
        line("nemesis", "healthy", after_s=1.5),
        line("w", "acked", records=[[2, 2]]),
        line("w", "failed", numbers=[3], why="_MSG_TIMED_OUT"),
        line("m2", "fetched", group="g", began=12.5, offset=2),
        line("m2", "assigned", assignment=1, at=2),
        line("m2", "polled", assignment=1, at=2, values=values[2:]),
        line("m2", "committing", group="g", commit="m2/1", offset=3),
        line("m2", "committed", commit="m2/1"),
        line("r", "polled", assignment=1, at=2, values=values[2:]),
        line("final", "assigned", assignment=1, at=0),
        line("final", "polled", assignment=1, at=0, values=values),
    ]


def line(who: str, what: str, **more: object) -> Event:
    return {"who": who, "what": what, "place": PLACE, **more}


def timed(history: list[Event]) -> list[Event]:
    return [{"t": float(number), **event} for number, event in enumerate(history)]


def find(history: list[Event], who: str, what: str) -> Event:
    """The last event of the kind, for a test to modify."""
    return [event for event in history if (event["who"], event["what"]) == (who, what)][-1]


def lose_a_write(history: list[Event]) -> None:
    history.append(line("w", "acked", records=[[1, 4]]))
    for event in history:
        if event["what"] == "polled" and event["at"] == 0:
            event["values"] = event["values"][:1]
    final = find(history, "final", "polled")
    history += [
        line("final", "assigned", assignment=2, at=2),
        line("final", "polled", assignment=2, at=2, values=["w:2"]),
    ]
    final["values"] = ["w:0"]


def lose_a_write_without_an_offset(history: list[Event]) -> None:
    history.append(line("w", "acked", records=[[-1, 4]]))


def leave_one_unseen(history: list[Event]) -> None:
    find(history, "final", "polled")["values"] = ["w:0", "w:1"]


def acknowledge_another_value(history: list[Event]) -> None:
    find(history, "w", "acked")["records"] = [[2, 7]]


def read_another_value(history: list[Event]) -> None:
    find(history, "r", "polled")["values"] = ["w:3"]


def store_twice(history: list[Event]) -> None:
    find(history, "final", "polled")["values"] = ["w:0", "w:1", "w:2", "w:1"]


def reorder(history: list[Event]) -> None:
    history.append(line("w", "acked", records=[[3, 9], [4, 8]]))
    find(history, "final", "polled")["values"] += ["w:9", "w:8"]


def poll_again(history: list[Event]) -> None:
    history.append(line("r", "polled", assignment=1, at=1, values=["w:1", "w:2"]))


def skip(history: list[Event]) -> None:
    history.remove(find(history, "m1", "polled"))
    history.append(line("r", "polled", assignment=1, at=5, values=[]))


def lose_a_position(history: list[Event]) -> None:
    history.append(line("r", "lost", why="the offset is out of range"))


def damage(history: list[Event]) -> None:
    history.append(line("r", "damaged", at=1))


def store_what_nobody_sent(history: list[Event]) -> None:
    find(history, "final", "polled")["values"].append("w:12")


def forget_a_commit(history: list[Event]) -> None:
    find(history, "m2", "fetched")["offset"] = -1


def tell_an_older_commit(history: list[Event]) -> None:
    at = history.index(find(history, "m1", "committed"))
    history[at + 1 : at + 1] = [
        line("m1", "committing", group="g", commit="m1/2", offset=1),
        line("m1", "uncommitted", commit="m1/2", why="ILLEGAL_GENERATION"),
    ]
    find(history, "m2", "fetched")["offset"] = 1


def commit_of_the_past(history: list[Event]) -> None:
    history += [line("m1", "committing", group="g", commit="m1/2", offset=2), line("m1", "committed", commit="m1/2")]


def pass_one_by(history: list[Event]) -> None:
    find(history, "m1", "polled")["values"] = ["w:0"]


def fatal(history: list[Event]) -> None:
    history.append(line("w", "fatal", code="OUT_OF_ORDER_SEQUENCE_NUMBER", why="lost track"))


def node_dies(history: list[Event]) -> None:
    history.append(line("nemesis", "died", node=1, expected=False, why="InvariantBroken"))


def client_dies(history: list[Event]) -> None:
    history.append(line("nemesis", "died", client="r", expected=False, why="ended with 1"))


def stall(history: list[Event]) -> None:
    history.append(line("nemesis", "stalled", why="not whole"))


DOCTORS: list[tuple[str, Callable[[list[Event]], None]]] = [
    ("lost write", lose_a_write),
    ("lost write", lose_a_write_without_an_offset),
    ("unseen", leave_one_unseen),
    ("inconsistent offset", acknowledge_another_value),
    ("inconsistent offset", read_another_value),
    ("duplicate", store_twice),
    ("reordered", reorder),
    ("non-monotonic poll", poll_again),
    ("skipped poll", skip),
    ("position lost", lose_a_position),
    ("damaged", damage),
    ("phantom", store_what_nobody_sent),
    ("commit lost", forget_a_commit),
    ("commit lost", tell_an_older_commit),
    ("commit backwards", commit_of_the_past),
    ("missed by group", pass_one_by),
    ("fatal producer error", fatal),
    ("node died", node_dies),
    ("client died", client_dies),
    ("stalled", stall),
]


def test_a_sound_history_is_clean() -> None:
    verdict = check(timed(sound()))
    assert not verdict.examples
    assert (verdict.acked, verdict.failed, verdict.read_at_the_end, verdict.commits) == (3, 1, 3, 2)
    assert (verdict.faults.total(), verdict.longest_gap_s, verdict.slowest_recovery_s) == (1, 11.0, 1.5)


@pytest.mark.parametrize(("kind", "doctor"), DOCTORS, ids=[doctor.__name__ for _, doctor in DOCTORS])
def test_an_anomaly_is_found(kind: str, doctor: Callable[[list[Event]], None]) -> None:
    history = sound()
    doctor(history)
    verdict = check(timed(history))
    assert kind in verdict.found, verdict.examples
    assert verdict.examples[kind]


def test_every_kind_has_a_doctor() -> None:
    assert {kind for kind, _ in DOCTORS} == set(KINDS)


def test_a_commit_without_an_answer_may_be_returned_later() -> None:
    history = sound()
    at = history.index(find(history, "m1", "committed"))
    history.insert(at + 1, line("m1", "committing", group="g", commit="m1/2", offset=1))
    find(history, "m2", "fetched")["offset"] = 1
    find(history, "m2", "assigned")["at"] = 1
    find(history, "m2", "polled").update(at=1, values=["w:1", "w:2"])
    assert check(timed(history)).clean


def test_a_failed_write_may_be_there_once() -> None:
    history = sound()
    find(history, "final", "polled")["values"].append("w:3")
    assert check(timed(history)).clean


def test_a_write_acknowledged_without_an_offset_may_be_at_any_offset() -> None:
    history = sound()
    find(history, "w", "acked")["records"] = [[-1, 2]]
    assert check(timed(history)).clean


def test_records_that_a_producer_resends_in_its_next_epoch_are_not_duplicates() -> None:
    history = sound()
    find(history, "final", "polled")["values"] += ["w:1", "w:2"]
    runs = [[0, 3, 1000, 0], [3, 5, 1000, 1]]
    verdict = check(timed([*history, line("nemesis", "written", runs=runs)]))
    assert verdict.clean
    assert verdict.sent_again == 2
    runs[1][3] = 0
    verdict = check(timed([*history, line("nemesis", "written", runs=runs)]))
    assert verdict.found["duplicate"] == 2


def test_a_client_side_failure_is_not_an_anomaly() -> None:
    assert check(timed([*sound(), line("w", "fatal", code="_INCONSISTENT", why="timed out in parts")])).clean


def test_a_value_tells_whose_it_is_and_whether_it_is_whole() -> None:
    value = value_of("writer-1", 1234)
    assert identity_of(value) == "writer-1:1234"
    for broken in (None, b"", b"x", value[:-1], value + b"0", value.replace(b"1234", b"1235", 1)):
        assert identity_of(broken) is None


def test_diaries_are_read_in_the_order_of_time_without_a_torn_line(tmp_path: Path) -> None:
    for who, began in (("a", 3.0), ("b", 2.0), ("a", 1.0)):
        diary = Diary(tmp_path, who, began)
        diary.note("healed")
        diary.close()
    with (tmp_path / "b.jsonl").open("a") as file:
        file.write('{"t": 1')
    history = list(read_history(tmp_path))
    assert [event["who"] for event in history] == ["a", "b", "a"]


def test_replicas_are_compared_batch_by_batch(tmp_path: Path) -> None:
    def batch(base: int, value: bytes) -> bytes:
        return bytes(encode_batch([Record(value=value, timestamp=1)], base_offset=base))

    nodes = [tmp_path / "1", tmp_path / "2"]
    for node in nodes:
        (node / "t-0").mkdir(parents=True)
    (nodes[0] / "t-0" / "0.log").write_bytes(batch(0, b"a") + batch(1, b"b"))
    # Segments may begin elsewhere.
    (nodes[1] / "t-0" / "0.log").write_bytes(batch(0, b"a"))
    (nodes[1] / "t-0" / "1.log").write_bytes(batch(1, b"b"))
    compared, differences = compare(nodes, {"t-0": (1, 2)})
    assert compared > 100
    assert not differences
    (nodes[1] / "t-0" / "1.log").write_bytes(batch(1, b"c"))
    assert compare(nodes, {"t-0": (1, 2)})[1]
    assert producers_of(nodes[1] / "t-0") == [(0, 2, -1, -1)]
    (nodes[1] / "t-0" / "1.log").unlink()
    assert compare(nodes, {"t-0": (1, 2)})[1]


def test_a_history_becomes_a_picture() -> None:
    picture = draw(timed(sound()), "a <run>")
    assert picture.startswith("<svg")
    assert "kill a node" in picture
    assert "a &lt;run&gt;" in picture


def test_a_run_replaces_the_last_one_in_the_track_record(tmp_path: Path) -> None:
    (tmp_path / "timeline.svg").write_text("<svg/>")
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n{BEGIN}the run before\n{END}\nThe rest.\n")
    outcome = Outcome(check(timed(sound())), tmp_path, 10, None, bytes_compared=12345)
    for _ in range(2):
        record(outcome, 7, page)
    text = page.read_text()
    assert text.startswith(f"# Page\n\n{BEGIN}`make chaos MINUTES=10 SEED=7`")
    assert text.endswith(f"{END}\nThe rest.\n")
    assert "the run before" not in text
    assert "1 faults, 3 records acknowledged" in text
    assert "found nothing; 12,345 bytes" in text
    assert (tmp_path / "chaos.svg").exists()
    assert table(outcome).endswith("CLEAN\n")
