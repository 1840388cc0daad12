"""`tools/mutants.py` changes one place of a source and leaves the rest as it was."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "tools"))
import mutants

SOURCE = b'''
def is_due(self, now: int = 0) -> bool:
    """Not changed: 7."""
    log.info("not changed: %d", 7)
    if (self.at
            <= now) and self.open:
        self.calls += 1
    return max(now - self.at, 5) is not None
'''
CHANGED = {
    "0 becomes 1": "now: int = 1",
    "negate the condition": "if not ((self.at\n            <= now) and self.open):",
    "<= becomes <": "< now) and self.open:",
    "and becomes or": "<= now) or self.open:",
    "remove self.calls += 1": "pass",
    "1 becomes 2": "self.calls += 2",
    "is not becomes is": "5) is None",
    "max becomes min": "min(now - self.at, 5)",
    "- becomes +": "max(now + self.at, 5)",
    "5 becomes 6": "max(now - self.at, 6)",
}


@pytest.fixture(scope="module")
def found() -> dict[str, mutants.Mutant]:
    return {mutant.what: mutant for mutant in mutants.Places(Path("due.py"), SOURCE).mutants()}


def test_every_place_that_can_be_changed_is_found_once(found):
    assert found.keys() == CHANGED.keys()


@pytest.mark.parametrize("what", CHANGED)
def test_mutant_has_the_change_and_is_valid_python(found, what):
    changed = found[what].applied(SOURCE).decode()
    assert CHANGED[what] in changed
    assert CHANGED[what] not in SOURCE.decode()
    ast.parse(changed)
