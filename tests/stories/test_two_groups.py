"""Kafka's first picture: two servers, four partitions, group A with two members, group B with four."""

from __future__ import annotations

import re
import runpy
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.stories

EXAMPLE = Path(__file__).parents[2] / "examples" / "two_groups.py"


def test_each_group_gets_every_record_once(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    told = capsys.readouterr().out
    assert Counter(re.findall(r"led by server (\d)", told)) == {"1": 2, "2": 2}
    for group, shares in {"A": [2, 2], "B": [1, 1, 1, 1]}.items():
        owned = [re.findall(r"P\d", line) for line in told.splitlines() if line.startswith(f"group {group}, member")]
        assert [len(share) for share in owned] == shares
        assert sorted(partition for share in owned for partition in share) == ["P0", "P1", "P2", "P3"]
        assert f"group {group}: 1000 records, each 1 time\n" in told
