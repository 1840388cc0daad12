"""`odradek connect`: what it refuses, and what it advises."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from odradek.cli.connect import command
from support.connect_service import Service


@pytest.mark.parametrize("change", ['{"file": "a.csv", "line": 1}', '["a.csv"]', "7"])
def test_new_offsets_that_are_no_list_are_refused_with_the_shape_that_is_needed(change: str) -> None:
    done = CliRunner().invoke(command, ["offsets", "lines", "--set", change, "--yes", "--url", "http://127.0.0.1:1"])
    assert done.exit_code == 1
    assert """--set needs a list: '[{"partition": {…}, "offset": {…}}]'""" in done.output


def test_creating_a_connector_again_is_refused_with_the_way_to_change_it(service: Service) -> None:
    order = ["create", "again", "connector.class=datagen", "topic=again", "--paused", "--url", service.url]
    assert CliRunner().invoke(command, order).exit_code == 0
    done = CliRunner().invoke(command, order)
    assert done.exit_code == 1
    assert "Connector again already exists.\nChange it with: odradek connect apply -f FILE" in done.output
    assert CliRunner().invoke(command, ["delete", "again", "--yes", "--url", service.url]).exit_code == 0
