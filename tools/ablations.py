"""Switches off each rule that protects data, runs its tests, and writes the table of docs/internals/track-record.md.

python tools/ablations.py                  all rules, into the docs
python tools/ablations.py --only "vote"    only rules whose name has the word, printed
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import pytest  # noqa: E402

from sim.rules import RULES, Rule, checker_of  # noqa: E402

PAGE = ROOT / "docs" / "internals" / "track-record.md"
BEGIN, END = "<!-- ablations: begin -->", "<!-- ablations: end -->"
SEEN_CHARS_MAX = 160


@dataclass
class Finding:
    rule: str
    caught_by: list[str]
    seen_as: list[str]
    missed_by: list[str]


class Crash:
    """The message of the first test that fails."""

    def __init__(self) -> None:
        self.message = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.message:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.message = crash.message if crash is not None else str(report.longrepr)


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only rules whose name contains this text")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", action="store_true", help="run only the seeds, not the tests")
    options = parser.parse_args()
    chosen = [index for index, rule in enumerate(RULES) if options.only in rule.says]
    started = time.perf_counter()
    findings: list[Finding] = []
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(options.jobs, mp_context=context) as processes:
        for finding in processes.map(_try, chosen, [not options.seeds] * len(chosen)):
            findings.append(finding)
            tell(f"without {finding.rule}: {'; '.join(finding.caught_by) or 'NO TEST FAILED'}")
            for told in (*finding.seen_as, *(f"MISSED by {each}" for each in finding.missed_by)):
                tell(f"    {told}")
    missed = [finding.rule for finding in findings if finding.missed_by or not finding.caught_by]
    tell(f"{len(findings)} rules, {len(findings) - len(missed)} noticed, {time.perf_counter() - started:.0f} s")
    if not options.seeds:
        write_table([finding for finding in findings if finding.rule not in missed])
    return 1 if missed else 0


def _try(index: int, with_stories: bool) -> Finding:
    logging.disable()
    rule: Rule = RULES[index]
    finding = Finding(rule.says, [], [], [])
    if rule.seed is not None:
        _try_seeds(rule, finding)
    with rule.switched_off():
        for story in rule.stories if with_stories else ():
            _try_story(story, finding)
    return finding


def _try_seeds(rule: Rule, finding: Finding) -> None:
    seed = rule.seed
    found = rule.find()
    if found is None:
        finding.missed_by.append(f"{' and '.join(seed.finds)}, in all seeds of {seed.size}")
    elif (problem := seed.run(found.number, faults_until_s=found.after_s).problem) is not None:
        finding.missed_by.append(f"seed {found.number}, which fails with all rules as well: {problem}")
    else:
        finding.caught_by.append(f"{checker_of(found.problem)}, seed {found.number} of {seed.size}")
        finding.seen_as.append(_short(str(found.problem)))


def _try_story(story: str, finding: Finding) -> None:
    crash = Crash()
    with contextlib.redirect_stdout(io.StringIO()):
        quiet = ("-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
        code = pytest.main([*quiet, str(ROOT / story)], plugins=[crash])
    name = story.rpartition("::")[2]
    if code == pytest.ExitCode.TESTS_FAILED:
        finding.caught_by.append(f"`{name}`")
        finding.seen_as.append(_short(crash.message))
    else:
        finding.missed_by.append(f"{story} ({pytest.ExitCode(code).name})")


def _short(told: str) -> str:
    line = " ".join(told.splitlines()[0].split()) if told else ""
    return line if len(line) <= SEEN_CHARS_MAX else line[:SEEN_CHARS_MAX].rpartition(" ")[0] + " …"


def write_table(findings: list[Finding]) -> None:
    """Rules that were not tried now keep their rows."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    table, _, after = rest.partition(END)
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in table.splitlines() if line.startswith("| ")}
    for finding in findings:
        seen_as = "<br>".join(map(_cell, finding.seen_as))
        rows[finding.rule] = f"| {finding.rule} | {'<br>'.join(finding.caught_by)} | {seen_as} |"
    known = [rows[rule.says] for rule in RULES if rule.says in rows]
    written = "\n".join(["| without | noticed by | seen as |", "|---|---|---|", *known])
    told = f"{len(RULES)} rules, {len(known)} noticed."
    PAGE.write_text(f"{before}{BEGIN}\n{told}\n\n{written}\n{END}{after}")
    tell(f"written to {PAGE.relative_to(ROOT)}")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    sys.exit(main())
