"""One run from start to verdict: cluster, clients, nemesis, a full read at the end, the checker."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.context import SpawnProcess
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from chaos import replica_files
from chaos.checker import Verdict, check
from chaos.clients import FINISH_S, LAST_MS, RECORDS, Reader, Task, read, take_part, write
from chaos.cluster import NODES, TOPICS, ChaosCluster
from chaos.history import Diary, read_history
from chaos.nemesis import Nemesis
from chaos.timeline import draw

FINAL_READ_S = 300.0
PARTITIONS = {name: count for name, (count, _) in TOPICS.items()}
RANGE = {"partition.assignment.strategy": "range"}
COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky"}


@dataclass(slots=True)
class Client:
    work: Callable[[Task, Any], None]
    task: Task
    process: SpawnProcess | None = None
    seen: Any = None
    generation: int = 0

    def start(self) -> None:
        """The diary belongs to this process: its replacement writes a new one."""
        self.generation += 1
        if self.seen is None:
            self.seen = RawArray(ctypes.c_longlong, 2)
        who = self.task.who if self.generation == 1 else f"{self.task.who}.{self.generation}"
        task = replace(self.task, who=who, seed=self.task.seed + self.generation)
        self.process = multiprocessing.get_context("spawn").Process(target=self.work, args=(task, self.seen))
        self.process.start()

    def kill(self) -> int | None:
        """The process is gone when this returns. Returns its exit code if it had ended by itself before."""
        assert self.process is not None
        ended = self.process.exitcode
        self.process.kill()
        self.process.join()
        return ended

    def ask_to_finish(self) -> None:
        assert self.process is not None
        self.process.terminate()

    def finish(self) -> int | None:
        assert self.process is not None
        self.process.join(FINISH_S + 60)
        return self.process.exitcode


def replaced(member: Client, diary: Diary) -> None:
    """Kills the member and starts another in its place; a member that had ended before is an anomaly."""
    ended = member.kill()
    if ended is not None:
        note_death(member, diary, f"ended with {ended}")
    member.start()


def note_death(client: Client, diary: Diary, why: str) -> None:
    diary.note("died", client=client.task.who, expected=False, why=why)


@dataclass(slots=True)
class Outcome:
    verdict: Verdict
    out: Path
    minutes: float
    skipped: str | None
    bytes_compared: int = 0
    differences: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return self.verdict.clean and not self.differences


class Run:
    def __init__(self, *, seed: int, minutes: float, out: Path, say: Callable[[str], None]) -> None:
        self.seed = seed
        self.minutes = minutes
        self.out = out
        self._say = say
        self._diaries = out / "history"
        self._diaries.mkdir(parents=True)
        self.cluster = ChaosCluster(out / "data", out / "node.log")
        self._began = time.monotonic()
        self._clients: list[Client] = []

    def play(self) -> Outcome:
        skipped = self.cluster.mount_small_disks()
        try:
            outcome = self._play(skipped)
        except BaseException:
            self._clean_up(keep=True)
            raise
        self._clean_up(keep=not outcome.clean)
        return outcome

    def _play(self, skipped: str | None) -> Outcome:
        self.cluster.start()
        self._began = time.monotonic()
        diary = Diary(self._diaries, "nemesis", self._began)
        self._clients = self._all_clients()
        for client in self._clients:
            client.start()
        nemesis = Nemesis(self.cluster, diary, self.seed, partial(self._replace_member, diary))
        with Progress(nemesis, self._clients, self._began, self._say):
            nemesis.run(self._began + self.minutes * 60)
            if not nemesis.stalled:
                nemesis.await_health()
            nemesis.now = "clients finish"
            for client in self._clients:
                client.ask_to_finish()
            for client in self._clients:
                code = client.finish()
                if code != 0:
                    note_death(client, diary, "did not finish" if code is None else f"ended with {code}")
            nemesis.now = "the last look"
            replicas = {f"{topic}-{index}": each.replicas for (topic, index), each in self.cluster.partitions().items()}
            self._read_everything(diary)
            self.cluster.stop()
        if not nemesis.stalled:
            for place, (first, *_) in replicas.items():
                if place.rpartition("-")[0] in TOPICS:
                    runs = replica_files.producers_of(self.cluster.data / str(first) / place)
                    diary.note("written", place=place, runs=runs)
        outcome = Outcome(check(read_history(self._diaries)), self.out, self.minutes, skipped)
        if not nemesis.stalled:
            nodes = [self.cluster.data / str(node_id) for node_id in NODES]
            outcome.bytes_compared, outcome.differences = replica_files.compare(nodes, replicas)
        title = f"chaos, seed {self.seed}: {outcome.verdict.faults.total()} faults in {self.minutes:g} minutes"
        (self.out / "timeline.svg").write_text(draw(read_history(self._diaries), title))
        return outcome

    def _all_clients(self) -> list[Client]:
        def task(who: str, **more: Any) -> Task:
            everywhere = {"bootstrap": self.cluster.bootstrap, "diaries": self._diaries, "began": self._began}
            seed = random.Random(f"{self.seed} {who}").getrandbits(32)
            return Task(**{"who": who, "topics": PARTITIONS, "seed": seed, **everywhere, **more})

        orders, payments = {"orders": PARTITIONS["orders"]}, {"payments": PARTITIONS["payments"]}
        patient, hasty = {"message.timeout.ms": 300_000}, {"message.timeout.ms": 5_000, "compression.type": "zstd"}
        return [
            Client(write, task("writer-1", topics=orders, per_second=150, settings=patient)),
            Client(
                write,
                task("writer-2", topics=payments, per_second=100, settings={**patient, "compression.type": "lz4"}),
            ),
            Client(write, task("writer-3", per_second=100, settings=hasty)),
            Client(read, task("reader-1")),
            Client(read, task("reader-2")),
            Client(take_part, task("range-1", group="by-range", settings=RANGE)),
            Client(take_part, task("range-2", group="by-range", settings=RANGE)),
            Client(take_part, task("cooperative-1", group="cooperative", settings=COOPERATIVE)),
            Client(take_part, task("cooperative-2", group="cooperative", settings=COOPERATIVE)),
        ]

    def _replace_member(self, diary: Diary, rng: random.Random) -> str:
        member = rng.choice([client for client in self._clients if client.work is take_part])
        replaced(member, diary)
        return member.task.who

    def _read_everything(self, diary: Diary) -> None:
        task = Task(
            who="final",
            bootstrap=self.cluster.bootstrap,
            topics=PARTITIONS,
            diaries=self._diaries,
            began=self._began,
            seed=0,
        )
        ends = self._ends()
        left = Reader(task, [0, 0]).read_until(ends, FINAL_READ_S)
        if left:
            diary.note("stalled", why=f"the last look does not reach {left}")

    def _ends(self) -> dict[tuple[str, int], int]:
        asking = Consumer({"bootstrap.servers": self.cluster.bootstrap, "group.id": "ends", "log_level": 0})
        places = [(topic, index) for topic, count in PARTITIONS.items() for index in range(count)]
        try:
            return {place: self._end(asking, place) for place in places}
        finally:
            asking.close()

    def _end(self, asking: Consumer, place: tuple[str, int]) -> int:
        deadline = time.monotonic() + FINAL_READ_S
        while True:
            try:
                end: int = asking.get_watermark_offsets(TopicPartition(*place), timeout=10)[1]
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
            else:
                return end

    def _clean_up(self, *, keep: bool) -> None:
        for client in self._clients:
            if client.process is not None and client.process.is_alive():
                client.kill()
        with suppress(RuntimeError):  # it does not run any more
            self.cluster.kill()
        self.cluster.unmount_small_disks(keep=keep)
        if not keep:
            shutil.rmtree(self.cluster.data, ignore_errors=True)


class Progress:
    """One line while it runs: in place at a terminal, every ten seconds elsewhere."""

    def __init__(self, nemesis: Nemesis, clients: list[Client], began: float, say: Callable[[str], None]) -> None:
        self._nemesis = nemesis
        self._clients = clients
        self._began = began
        self._say = say
        self._longest_gap_s = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if sys.stdout.isatty():
            print()

    def _run(self) -> None:
        turns = 0
        while not self._over.wait(0.5):
            writers = [client for client in self._clients if client.work is write]
            last_s = max((client.seen[LAST_MS] for client in writers if client.seen), default=0) / 1000
            elapsed_s = time.monotonic() - self._began
            if last_s and self._nemesis.now not in ("clients finish", "the last look"):
                self._longest_gap_s = max(self._longest_gap_s, elapsed_s - last_s)
            line = self._line(elapsed_s, sum(client.seen[RECORDS] for client in writers))
            turns += 1
            if sys.stdout.isatty():
                columns = shutil.get_terminal_size().columns
                print("\r\x1b[K" + line[: columns - 1], end="", flush=True)
            elif turns % 20 == 0:
                self._say(line)

    def _line(self, elapsed_s: float, acked: int) -> str:
        read = sum(client.seen[RECORDS] for client in self._clients if client.work is not write)
        strikes = dict(self._nemesis.strikes)
        by_kind = ", ".join(f"{kind} {count}" for kind, count in sorted(strikes.items()))
        return (
            f"{int(elapsed_s) // 60}:{int(elapsed_s) % 60:02}  {acked:,} acknowledged  {read:,} read  longest gap "
            f"{self._longest_gap_s:.1f} s  {sum(strikes.values())} faults ({by_kind})  {self._nemesis.now}"
        )


def end_on_sigterm() -> None:
    """So that file systems are unmounted and processes ended."""

    def end(*_: object) -> None:
        raise SystemExit(143)

    signal.signal(signal.SIGTERM, end)


def new_directory(root: Path, seed: int) -> Path:
    """A new directory; an earlier run with the same seed is removed."""
    out = root / f"seed-{seed}"
    for mounted in out.glob("data/*"):
        if os.path.ismount(mounted):
            raise SystemExit(f"{mounted} is still mounted by a run that was killed: umount it first")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    return out.absolute()
