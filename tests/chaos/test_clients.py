"""The processes of a chaos run that are not nodes."""

from __future__ import annotations

from pathlib import Path

from chaos.checker import check
from chaos.clients import Task, take_part
from chaos.history import Diary, read_history
from chaos.run import Client, replaced


def test_a_member_that_has_died_by_itself_is_replaced_and_found(tmp_path: Path) -> None:
    settings = {"no.such.config": "1"}
    task = Task(
        who="m", bootstrap="127.0.0.1:1", topics={}, diaries=tmp_path, began=0, seed=1, group="g", settings=settings
    )
    member = Client(take_part, task)
    member.start()
    assert member.finish() == 1
    diary = Diary(tmp_path, "nemesis", 0)
    replaced(member, diary)
    diary.close()
    assert member.kill() is None, "another one runs in its place"
    verdict = check(read_history(tmp_path))
    assert verdict.found == {"client died": 1}
    assert verdict.examples["client died"][0].endswith("ended with 1")
