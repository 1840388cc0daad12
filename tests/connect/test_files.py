"""The file connectors by themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odradek.connect.connectors.files_sink import FilesSink, FilesSinkConfig
from odradek.connect.connectors.files_source import BadLine, FilesSource, FilesSourceConfig
from odradek.connect.records import Record, TopicPlace


def source(path: Path, **more: object) -> FilesSource:
    return FilesSource(FilesSourceConfig(path=str(path), topic="t", **more))


def rows(begin: int, end: int) -> list[Record]:
    return [Record(topic="t", value=n, place=TopicPlace("t", 0, n)) for n in range(begin, end)]


def test_reading_continues_at_an_offset_and_waits_for_line_ends(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"id":1}\n{"id":2}\n{"id"')
    read = list(source(file, key_field="id").read({"filename": str(file)}, None))
    assert [(record.key, record.value) for record in read] == [(1, {"id": 1}), (2, {"id": 2})]
    last = read[-1].place.offset
    assert not source(file).has_news({"filename": str(file)}, last)
    with file.open("a") as out:
        out.write(":3}\n")
    assert source(file).has_news({"filename": str(file)}, last)
    assert [record.value for record in source(file).read({"filename": str(file)}, last)] == [{"id": 3}]


def test_a_replaced_file_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text("1\n")
    with pytest.raises(ValueError, match="was replaced"):
        list(source(file).read({"filename": str(file)}, {"position": 100}))


def test_a_bad_line_names_file_and_position(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text("1\nx\n")
    with pytest.raises(BadLine, match=r"a.jsonl: the line that ends at byte 4 is not JSON") as bad:
        list(source(file).read({"filename": str(file)}, None))
    assert bad.value.record.place.offset == {"position": 4}


def test_a_crash_after_the_data_and_before_the_progress_repeats_nothing(tmp_path: Path) -> None:
    sink = FilesSink(FilesSinkConfig(path=str(tmp_path)))
    sink.write(rows(0, 3))
    with (tmp_path / "t-0.jsonl").open("a") as file:
        file.write("3\n4")  # torn: the process was killed here
    again = FilesSink(FilesSinkConfig(path=str(tmp_path)))
    assert again.positions({("t", 0): None}) == {("t", 0): 3}
    again.write(rows(3, 6))
    assert [json.loads(line) for line in (tmp_path / "t-0.jsonl").read_text().splitlines()] == [0, 1, 2, 3, 4, 5]


def test_a_crash_before_the_commit_continues_after_the_data(tmp_path: Path) -> None:
    sink = FilesSink(FilesSinkConfig(path=str(tmp_path)))
    sink.write(rows(0, 3))
    sink.write(rows(3, 6))
    again = FilesSink(FilesSinkConfig(path=str(tmp_path)))
    assert again.positions({("t", 0): 3}) == {("t", 0): 6}  # the group is one batch behind
    assert again.positions({("t", 0): 6}) == {("t", 0): 6}
    assert again.positions({("t", 0): 1}) == {}  # a user has set the offset
    assert again.positions({("t", 0): None}) == {}  # a user has reset the offsets


def test_a_crash_before_the_commit_of_a_batch_that_began_with_a_skipped_record_repeats_nothing(tmp_path: Path) -> None:
    sink = FilesSink(FilesSinkConfig(path=str(tmp_path)))
    sink.write(rows(0, 3))
    sink.group_offsets = {("t", 0): 3}
    sink.write(rows(4, 6))  # a transform has dropped 3, or it is the marker of a transaction
    again = FilesSink(FilesSinkConfig(path=str(tmp_path)))
    assert again.positions({("t", 0): 3}) == {("t", 0): 6}
