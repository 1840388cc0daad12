"""The garbage collector does not run during imports, and ignores afterwards what they made."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import gc
from odradek.cli.imports import uncollected

runs = []
gc.callbacks.append(lambda phase, info: runs.append(phase))
try:
    with uncollected():
        made = [[] for _ in range(10_000)]
        {inside}
except ZeroDivisionError:
    pass
print(len(runs), gc.isenabled(), gc.get_freeze_count() > 10_000)
"""
TURNED_OFF = """
import gc
gc.disable()
from odradek.cli.imports import uncollected

with uncollected():
    pass
print(gc.isenabled(), gc.get_freeze_count())
"""


def said(program: str) -> str:
    """In a process of its own, because it freezes objects."""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("inside", ["pass", "1 / 0"])
def test_the_collector_runs_again_after_imports_and_ignores_what_they_made(inside):
    assert said(PROGRAM.format(inside=inside)) == "0 True True\n"


def test_a_collector_that_was_off_stays_off():
    assert said(TURNED_OFF) == "False 0\n"


def test_a_node_imports_only_what_its_first_record_needs():
    needless = "tomllib", "pickle", "difflib", "odradek.export", "odradek.monitor.left_out", "odradek.testing"
    assert said(f"import sys, odradek.node.process; print([m for m in {needless} if m in sys.modules])") == "[]\n"
