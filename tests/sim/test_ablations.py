"""Each rule that protects data is switched off once, and the checker that it is meant for must notice.

`make ablations` also tries the rules whose absence shows rarely, and the stories, which are tests of their own.
"""

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

from sim.rules import RULES, SAFEGUARDS, TRIES

ROOT = Path(__file__).parent.parent.parent
QUICK = [rule for rule in RULES if rule.seed is not None and rule.quick]


@pytest.mark.sim
@pytest.mark.parametrize("rule", QUICK, ids=str)
def test_checker_stops_a_run_without_the_rule_and_passes_the_same_run_with_it(rule, caplog):
    caplog.set_level("CRITICAL")
    found = rule.find()
    checkers = " or ".join(rule.seed.finds)
    assert found is not None, f"{checkers} did not notice that {rule} is missing, in {TRIES} seeds of {rule.seed.size}"
    # The same faults up to the moment of the problem; then the clients finish, and everything is checked.
    control = rule.seed.run(found.number, faults_until_s=found.after_s).problem
    assert control is None, f"seed {found.number} fails with all rules, so it shows nothing: {control}"


@pytest.mark.parametrize("module", SAFEGUARDS)
def test_every_safeguard_is_in_the_list(module):
    safeguards = import_module(f"odradek.{module}")
    functions = [name for name, function in inspect.getmembers(safeguards, inspect.isfunction)]
    own = [name for name in functions if getattr(safeguards, name).__module__ == safeguards.__name__]
    listed = [switch.name for rule in RULES for switch in rule.off if switch.module == module]
    assert own
    assert [name for name in own if name not in listed] == []


def test_every_switch_names_an_existing_function():
    for rule in RULES:
        for switch in rule.off:
            owner, name = switch.place()
            assert callable(getattr(owner, name)), f"{rule}: {switch.module} has no {switch.name}"


def test_every_rule_has_a_seed_or_a_story_that_detects_its_absence():
    for rule in RULES:
        assert rule.seed is not None or rule.stories, rule
        for story in rule.stories:
            path, _, name = story.partition("::")
            assert f"def {name}(" in (ROOT / path).read_text(), story


def test_every_declared_invariant_is_documented():
    page = (ROOT / "docs" / "internals" / "simulation.md").read_text()
    cells = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| ")]
    documented = {name for cell in cells for name in re.findall(r"\b[A-Z]\d+\b", cell)}
    declared = {name for rule in RULES if rule.seed is not None for name in rule.seed.finds}
    invariants = {name for name in declared if re.fullmatch(r"[A-Z]\d+", name)}
    assert invariants
    assert invariants <= documented


def test_the_page_names_every_rule():
    page = (ROOT / "docs" / "internals" / "track-record.md").read_text()
    table = page.partition("<!-- ablations: begin -->")[2].partition("<!-- ablations: end -->")[0]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines() if line.startswith("| ")]
    assert rows[1:] == [rule.says for rule in RULES], "update the table with: python tools/ablations.py"
