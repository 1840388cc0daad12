"""Runs pytest, and repeats once, alone, the tests that failed beside others.

python tools/repeat_failed.py .venv/unit "-n 3" tests examples    "-n 3" is for the first run only

Succeeds if each of these tests passes alone: a busy machine makes a test fail that waits for real processes. Fails if

- a test fails twice, or is skipped when it is repeated;
- the first run ended early, so that tests did not run: then nothing is repeated;
- a test had to be repeated in the run before this one, too: it always fails beside others.

The directory holds pytest's cache and `repeated`, the names of the tests that passed only when they were repeated.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

TESTS_FAILED = 1  # pytest's exit code if all tests ran


def main(directory: Path, beside: Sequence[str], wanted: Sequence[str]) -> int:
    directory.mkdir(parents=True, exist_ok=True)
    record, failed_file = directory / "repeated", directory / "v/cache/lastfailed"
    before = record.read_text().splitlines() if record.exists() else []
    for file in (record, failed_file):  # a run that is killed would leave those of an older one
        file.unlink(missing_ok=True)
    status = _pytest(directory, *beside, *wanted)
    failed = sorted(json.loads(failed_file.read_text())) if failed_file.exists() else []
    if status == 0:
        return 0
    if status != TESTS_FAILED or not failed or not all("::" in name for name in failed):
        print("nothing is repeated: not all tests ran")
        return status
    print(f"repeating, alone: {', '.join(failed)}", flush=True)
    if not _all_pass(directory, wanted, len(failed)):
        return TESTS_FAILED
    record.write_text("".join(f"{name}\n" for name in failed))
    again = sorted(set(before) & set(failed))
    if again:
        print(f"passed alone, but failed beside others in the run before, too: {', '.join(again)}. Find the cause")
    return TESTS_FAILED if again else 0


def _all_pass(directory: Path, wanted: Sequence[str], count: int) -> bool:
    """Whether exactly the tests that failed ran, and none of them failed or was skipped."""
    results = directory / "repeated.xml"
    only_failed = ("--last-failed", "--last-failed-no-failures", "none", f"--junitxml={results}")
    if _pytest(directory, *only_failed, *wanted) != 0:
        return False
    [suite] = ET.parse(results).getroot().iter("testsuite")
    ran, skipped = int(suite.attrib["tests"]), int(suite.attrib["skipped"])
    if ran != count or skipped:
        print(f"{count} tests failed; alone, {ran - skipped} of them ran and {skipped} were skipped")
    return ran == count and not skipped


def _pytest(directory: Path, *arguments: str) -> int:
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={directory.absolute()}", *arguments]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), shlex.split(sys.argv[2]), sys.argv[3:]))
