"""CPU and memory of the processes of a measurement, by kind, from /proc.

A part of a measurement is a session (`start_new_session`), and every process in that session belongs to it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
SAMPLE_EVERY_S = 1.0
THREAD_NUMBER = re.compile(r"[\d.#-]+$")

Cpu = Mapping[str, float]  # kind -> seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    pid: int
    session: int
    started: int  # ticks since boot: with the pid, a unique id of a process
    cpu_s: float
    rss_bytes: int
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    at: float  # time.time()
    cpu: Cpu
    rss_bytes: Cpu
    machine_cpu_s: float  # of all processes of the machine


def machine_cpu_s() -> float:
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / TICKS_PER_S


def processes() -> list[Process]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                found.append(_read(folder))
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue  # the process has ended meanwhile, or belongs to another user
    return found


def _read(folder: Path) -> Process:
    fields = _fields(folder)
    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return Process(
        pid=int(folder.name),
        session=int(fields[3]),
        started=int(fields[19]),
        cpu_s=_cpu_s(fields),
        rss_bytes=int(fields[21]) * PAGE_BYTES,
        command=command,
    )


def _fields(folder: Path) -> list[str]:
    """The fields of `stat` after the name, which may contain anything."""
    return (folder / "stat").read_text().rpartition(")")[2].split()


def _cpu_s(fields: list[str]) -> float:
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def shared_fairly_bytes(sessions: set[int]) -> int:
    """Memory of all processes of these sessions (PSS): a page that n of them share counts once, not n times."""
    total = 0
    for process in processes():
        if process.session in sessions:
            try:
                rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
            found = re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)
            total += int(found[1]) * 1024 if found else 0
    return total


def end_session(session: int) -> None:
    """Kills all remaining processes of a session of this benchmark: a worker may have its own process group."""
    for process in processes():
        if session > 0 and process.session == session:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)


class CpuWatch:
    """Samples the CPU seconds of the processes that `kind_of` names, once a second in its own thread.

    For an ended process, the value of its last sample is kept.
    """

    def __init__(self, kind_of: Callable[[Process], str | None]) -> None:
        self._kind_of = kind_of
        self._used: dict[tuple[int, int], tuple[str, float]] = {}  # (pid, start) -> kind, seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cpu-watch", daemon=True)
        self.samples: list[Sample] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        self._sample()
        while not self._stop.wait(SAMPLE_EVERY_S):
            self._sample()
        self._sample()

    def _sample(self) -> None:
        rss: defaultdict[str, float] = defaultdict(float)
        for process in processes():
            kind = self._kind_of(process)
            if kind is not None:
                self._used[process.pid, process.started] = kind, process.cpu_s
                rss[kind] += process.rss_bytes
        cpu: defaultdict[str, float] = defaultdict(float)
        for kind, seconds in self._used.values():
            cpu[kind] += seconds
        busy_s = machine_cpu_s()
        self.samples.append(Sample(at=time.time(), cpu=dict(cpu), rss_bytes=dict(rss), machine_cpu_s=busy_s))

    def cores(self, since: float, until: float = float("inf")) -> Cpu:
        """The cores that each kind used between two moments; processes outside the benchmark are "others"."""
        inside = [sample for sample in self.samples if since <= sample.at <= until]
        if len(inside) < 2:
            return {}
        first, last = inside[0], inside[-1]
        took = last.at - first.at
        cores = {kind: (used - first.cpu.get(kind, 0.0)) / took for kind, used in last.cpu.items()}
        others = (last.machine_cpu_s - first.machine_cpu_s) / took - sum(cores.values())
        return {**cores, "others": max(0.0, others)}

    def rss_max_bytes(self, *kinds: str) -> float:
        """The maximum of the sum of these kinds. A page that forked workers share counts for each worker."""
        return max((sum(one.rss_bytes.get(kind, 0.0) for kind in kinds) for one in self.samples), default=0.0)


def thread_groups(pid: int) -> Counter[str]:
    """CPU seconds of a process's current threads. Threads whose names differ only in a number are one group."""
    groups: Counter[str] = Counter()
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            name = (task / "comm").read_text().strip()
            groups[THREAD_NUMBER.sub("", name).strip() or name] += _cpu_s(_fields(task))  # type: ignore[assignment]
    except (FileNotFoundError, ProcessLookupError):
        pass
    return groups
