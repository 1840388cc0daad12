"""The configuration page lists the configs that the broker reads, and its commands work."""

from __future__ import annotations

from docs.pages import ROOT, tool
from odradek.testing import Embedded
from support.command_line import succeed


def test_configuration_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "configuration.md").read_text() == tool("configuration").page(), (
        "run `python tools/configuration.py`"
    )


def test_commands_of_the_configuration_page_work(odradek: Embedded) -> None:
    succeed(odradek, "topic", "create", "orders", "-c", "retention.ms=86400000")
    succeed(odradek, "config", "set", "topic", "orders", "retention.ms=86400000")
    succeed(odradek, "config", "set", "broker", "all", "log.retention.ms=86400000")
    succeed(odradek, "config", "set", "broker", "1", "log.cleaner.io.max.bytes.per.second=10000000")
    assert "retention.ms" in succeed(odradek, "config", "get", "topic", "orders", "--all")
    assert "log.retention.ms" in succeed(odradek, "config", "get", "broker", "1", "--all")
