"""The configuration page lists the configs that the broker reads, and its commands work."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from odradek.testing import Embedded
from support.command_line import succeed

ROOT = Path(__file__).parents[2]


def test_configuration_page_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("configuration", ROOT / "tools" / "configuration.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "configuration.md").read_text() == module.page(), "run `python tools/configuration.py`"


def test_commands_of_the_configuration_page_work(odradek: Embedded) -> None:
    succeed(odradek, "topic", "create", "orders", "-c", "retention.ms=86400000")
    succeed(odradek, "config", "set", "topic", "orders", "retention.ms=86400000")
    succeed(odradek, "config", "set", "broker", "all", "log.retention.ms=86400000")
    succeed(odradek, "config", "set", "broker", "1", "log.cleaner.io.max.bytes.per.second=10000000")
    assert "retention.ms" in succeed(odradek, "config", "get", "topic", "orders", "--all")
    assert "log.retention.ms" in succeed(odradek, "config", "get", "broker", "1", "--all")
