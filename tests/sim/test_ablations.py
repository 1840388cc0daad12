"""Each rule that protects data is switched off once, and the simulation must detect it; the list of rules is complete.

`make ablations` tries the rules that take long, and the stories, which are tests of their own.
"""

import inspect
from importlib import import_module
from pathlib import Path

import pytest

from odradek.sim.world import World
from sim.rules import RULES, SAFEGUARDS

ROOT = Path(__file__).parent.parent.parent
BOUND = 100


@pytest.mark.sim
@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.seed is not None and rule.quick], ids=str)
def test_the_simulation_detects_a_missing_rule(rule, monkeypatch, caplog):
    caplog.set_level("CRITICAL")
    for switch in rule.off:
        monkeypatch.setattr(*switch.place(), switch.without)
    seed = rule.seed
    for number in (seed.number, *range(BOUND)):
        world = World(number, nodes=seed.nodes, controllers=seed.controllers, focus=seed.focus)
        if world.run().problem is not None:
            return
    pytest.fail(f"{BOUND} seeds without {rule}, and no check failed")


@pytest.mark.parametrize("module", SAFEGUARDS)
def test_every_safeguard_is_in_the_list(module):
    room = import_module(f"odradek.{module}")
    functions = [name for name, _ in inspect.getmembers(room, inspect.isfunction) if hasattr(room, name)]
    own = [name for name in functions if getattr(room, name).__module__ == room.__name__]
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


def test_the_page_names_every_rule():
    page = (ROOT / "docs" / "internals" / "track-record.md").read_text()
    table = page.partition("<!-- ablations: begin -->")[2].partition("<!-- ablations: end -->")[0]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines() if line.startswith("| ")]
    assert rows[1:] == [rule.says for rule in RULES], "update the table with: python tools/ablations.py"
