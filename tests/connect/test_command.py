"""`odradek connect`: what it refuses before it asks the service."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from odradek.cli.connect import command


@pytest.mark.parametrize("change", ['{"file": "a.csv", "line": 1}', '["a.csv"]', "7"])
def test_new_offsets_that_are_no_list_are_refused_with_the_shape_that_is_needed(change: str) -> None:
    done = CliRunner().invoke(command, ["offsets", "lines", "--set", change, "--yes", "--url", "http://127.0.0.1:1"])
    assert done.exit_code == 1
    assert """--set needs a list: '[{"partition": {…}, "offset": {…}}]'""" in done.output
