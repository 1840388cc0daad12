"""Java Flight Recorder: a recording of the application's JVM, and its busiest stacks by group of threads."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

STACK_DEPTH = 64
FRAMES_SHOWN, GROUPS_SHOWN, STACKS_SHOWN, METHODS_SHOWN = 5, 8, 3, 10
OURS = "org.apache.spark."  # for other threads, only the leaves are shown
DUMP_TIMEOUT_S = 60.0
THREAD = re.compile(r'sampledThread = "(.*?)"')
FRAME = re.compile(r"\s*([\w$.<>/]+)\(")
NUMBERS = re.compile(r"\d[\d.]*")

Sampled = tuple[str, list[str]]  # group of threads, methods with the leaf first


# Without a file name: a JVM that is killed while it writes the file would leave an incomplete one.
JAVA_OPTION = "-XX:StartFlightRecording=name=bench,settings=profile"


def dump(pid: int, file: Path) -> None:
    """Writes the recording of a JVM that is still alive."""
    jcmd = shutil.which("jcmd")
    if jcmd is None:
        print("no flight recording: jcmd, which comes with a JDK, is not installed")
        return
    command = [jcmd, str(pid), "JFR.dump", "name=bench", f"filename={file}"]
    subprocess.run(command, capture_output=True, timeout=DUMP_TIMEOUT_S, check=False)


def report(file: Path) -> str:
    jfr = shutil.which("jfr")
    if jfr is None or not file.exists():
        return f"no flight recording to show: {'jfr is not installed' if jfr is None else f'{file} is missing'}"
    command = [jfr, "print", "--events", "jdk.ExecutionSample", "--stack-depth", str(STACK_DEPTH), str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as printing:
        return _told(samples(printing.stdout or ()), file)


def samples(lines: Iterable[str]) -> Iterator[Sampled]:
    """From the text that `jfr print` writes."""
    group, stack = "", list[str]()
    for line in lines:
        if line.startswith("jdk."):
            group, stack = "", []
        elif found := THREAD.search(line):
            group = NUMBERS.sub("#", found[1].partition(" [")[0])
        elif line.strip().startswith("]"):
            if stack:
                yield group, stack
        elif frame := FRAME.match(line):
            stack.append(frame[1])


def short(method: str) -> str:
    """`o.a.s.sql.Dataset.show` as `Dataset.show`."""
    return ".".join(method.split(".")[-2:])


def _told(found: Iterable[Sampled], file: Path) -> str:
    leaves: defaultdict[str, Counter[str]] = defaultdict(Counter)
    methods: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for group, stack in found:
        leaves[group][" < ".join(map(short, stack[:FRAMES_SHOWN]))] += 1
        methods[group].update({short(method) for method in stack if method.startswith(OURS)})
    total = sum(stacks.total() for stacks in leaves.values())
    lines = [f"flight recording {file}: {total:,} samples of Java code"]
    for group, stacks in sorted(leaves.items(), key=lambda one: -one[1].total())[:GROUPS_SHOWN]:
        lines.append(f"  {100 * stacks.total() / total:5.1f} %  {group}")
        lines.append("           stacks, the leaf first:")
        lines += [f"     {100 * n / total:5.1f} %  {stack}" for stack, n in stacks.most_common(STACKS_SHOWN)]
        lines.append("           methods of Spark, with all that they call:")
        lines += [f"     {100 * n / total:5.1f} %  {name}" for name, n in methods[group].most_common(METHODS_SHOWN)]
    return "\n".join(lines)
