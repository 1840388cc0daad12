"""Quickstart, client, testing and operations: every command and snippet on these pages is run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.pages import DOCS, Terminal, blocks, broker_on_the_usual_port
from odradek.client import Producer
from odradek.testing import Embedded
from support.command_line import succeed
from support.hanging import WITHOUT_VERIFICATION, hang


def run_python(text: str, directory: Path) -> str:
    told = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        cwd=directory,
        timeout=120,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    return told.stdout


@pytest.fixture
def on_the_usual_port() -> Iterator[Embedded]:
    with broker_on_the_usual_port() as broker:
        yield broker


def test_commands_of_the_quickstart_work(on_the_usual_port: Embedded, tmp_path: Path) -> None:
    page = DOCS / "quickstart.md"
    first, group, more, reset, *rest = [block for block in blocks(page, "sh") if "odradek up" not in block.text]
    with Terminal(tmp_path, on_the_usual_port.bootstrap_servers, ready=re.compile("3 plums")) as terminal:
        shown = terminal.run(first).splitlines()
        assert sorted(shown[-3:]) == blocks(page, "text")[0].text.splitlines(), "the output differs from the page"
        terminal.run(group)
        assert "odradek" in terminal.run(more), "the output does not show the consumer of the other terminal"
        assert terminal.interrupt() == [0]
        assert "NOW" in terminal.run(reset)
        for block in rest:
            terminal.run(block)
    assert "speed-test" not in succeed(on_the_usual_port, "topic", "ls")
    [snippet] = blocks(page, "python")
    assert run_python(snippet.text, tmp_path).split()[-2:] == ["b'alice'", "3"]


def test_snippets_of_the_client_page_run(on_the_usual_port: Embedded, tmp_path: Path) -> None:
    first, dead_letters, with_asyncio, metrics = blocks(DOCS / "client.md", "python")
    assert run_python(first.text, tmp_path).splitlines() == ["0", "alice 3 b'web'"]
    succeed(on_the_usual_port, "produce", "purchases", stdin="no order\n")
    assert run_python(dead_letters.text, tmp_path).splitlines()[-1] == "1 skipped"
    assert succeed(on_the_usual_port, "consume", "purchases.dead", "-o", ":") == "no order\n"
    run_python(with_asyncio.text, tmp_path)
    assert "alice" in succeed(on_the_usual_port, "consume", "copy", "-o", ":", "-f", "%k\\n")
    url, measured = run_python(metrics.text, tmp_path).splitlines()
    assert url.endswith("/metrics")
    assert "record-send-total" in measured


def test_snippet_of_the_transactions_page_runs(on_the_usual_port: Embedded, tmp_path: Path) -> None:
    [snippet] = blocks(DOCS / "transactions.md", "python")
    assert run_python(snippet.text, tmp_path).strip() == "[b'credit', b'debit']"


def test_commands_of_the_transactions_page_work(tmp_path: Path) -> None:
    looking, hanging = blocks(DOCS / "transactions.md", "sh")
    with Embedded(config=WITHOUT_VERIFICATION) as broker, Terminal(tmp_path, broker.bootstrap_servers) as terminal:
        succeed(broker, "topic", "create", "payments", "-p", "2")
        with Producer(broker.bootstrap_servers, transactional_id="bookkeeper") as producer:
            tx = producer.transaction().__enter__()
            tx.send("payments", b"debit", partition=1)
            producer.flush()
            assert "Ongoing" in terminal.run(looking)
            hang(broker.port, "payments", b"lost")
            assert "aborted the transaction at payments:0:0" in terminal.run(hanging)


@pytest.mark.parametrize("number", range(3))
def test_snippets_of_the_testing_page_run(tmp_path: Path, number: int) -> None:
    snippet = blocks(DOCS / "testing.md", "python")[number].text
    told = subprocess.run([sys.executable, "-c", snippet], capture_output=True, text=True, timeout=120, check=False)
    assert told.returncode == 0, told.stderr


def test_commands_of_the_operations_page_work(tmp_path: Path) -> None:
    data = tmp_path / "original"
    with Embedded(data=data) as broker, Terminal(tmp_path, broker.bootstrap_servers) as terminal:
        succeed(broker, "topic", "create", "orders", "-p", "1")
        succeed(broker, "produce", "orders", stdin="one\ntwo\n")
        on_a_broker = [block for block in blocks(DOCS / "operations.md", "sh") if "odradek log" not in block.text]
        told = [terminal.run(block) for block in on_a_broker]
    assert "all 1" in told[0] or "partitions" in told[0]
    shutil.copytree(data, tmp_path / "data")
    with Embedded() as broker, Terminal(tmp_path, broker.bootstrap_servers) as terminal:
        on_files = [block for block in blocks(DOCS / "operations.md", "sh") if "odradek log" in block.text]
        assert "OFFSET" in "".join(terminal.run(block) for block in on_files)
