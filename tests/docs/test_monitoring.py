"""Every command on the page about monitoring is run."""

from __future__ import annotations

import json
import socket
from pathlib import Path

from docs.pages import DOCS, Block, Terminal, blocks
from odradek.testing import Embedded
from support.command_line import succeed

PAGE = DOCS / "monitoring.md"


def with_free_port(block: Block) -> Block:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    text = block.text.replace(":8000", f":{port}")
    return Block(block.kind, text.replace("odradek monitor  ", f"odradek monitor --listen 127.0.0.1:{port}  "))


def test_commands_of_the_monitoring_page_work(tmp_path: Path) -> None:
    (tmp_path / "monitor.toml").write_text("\n".join(block.text for block in blocks(PAGE, "toml")))
    first, check = blocks(PAGE, "sh")
    with Embedded() as broker, Terminal(tmp_path, broker.bootstrap_servers) as terminal:
        succeed(broker, "produce", "orders", stdin="one\ntwo\n")
        succeed(broker, "consume", "orders", "-g", "billing", "-o", "beginning", "-n", "2")
        shown = terminal.run(with_free_port(first))
        assert json.loads(shown.splitlines()[-1])["status"]["status"] == "OK"
        assert terminal.run(check) == "monitor.toml is valid: local\n"
