"""The page about the data source: its tables list all options, and all of its blocks run in order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.pages import DOCS, Terminal, blocks
from odradek.client.java_names import TRANSLATED
from odradek.client.java_security import NAMES
from odradek.client.java_tables import RENAMED
from odradek.spark import options, sink_options

PAGE = DOCS / "spark.md"


def named(section: str) -> set[str]:
    """The code words in the first column of the tables of a section."""
    text = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)[1]
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("|")]
    return set(re.findall(r"`([^`]+)`", " ".join(cells)))


def test_page_lists_every_option_of_a_read():
    assert named("Options of a read") == {*options.KNOWN.values(), "kafka.group.id", "kafka.*"}


def test_page_lists_every_option_of_a_write():
    assert named("Options of a write") == {*sink_options.KNOWN.values(), "kafka.*"} - {"queryName"}


def test_page_lists_translated_client_settings():
    listed = named("Settings of the client")
    assert listed <= {*RENAMED, *TRANSLATED, *NAMES}
    assert {*RENAMED} <= listed


def test_all_blocks_of_the_page_run_in_order(spark, odradek, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    broker = odradek.bootstrap_servers
    page = blocks(PAGE)
    seen: dict[str, object] = {}
    with Terminal(tmp_path, broker) as terminal:
        for block, following in zip(page, [*page[1:], page[-1]], strict=True):
            # the working directory of the JVM may differ
            code = block.text.replace("127.0.0.1:9092", broker).replace(
                '"checkpoint"', repr(str(tmp_path / "checkpoint"))
            )
            match block.kind:
                case "sh":
                    terminal.run(block)
                case "python":
                    exec(code, seen)  # code of the page
                case "python raises":
                    with pytest.raises(Exception, match=re.escape(following.text.strip())):
                        exec(code, seen)
        loud = terminal.run(type(block)("sh", "odradek consume loud_orders -o beginning -e -f '%k %v'"))
    assert loud == "ann 2 APPLES"
