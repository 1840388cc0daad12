"""`odradek sim --seeds 0..100 --nodes 3` runs many simulations; `--seed 7 --nodes 3 --trace` traces one."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from odradek.sim.loop import SECOND_NS
from odradek.sim.world import Outcome, World

# Brokers, and controllers that are no brokers.
Size = tuple[int, int]
# The sizes of ten seeds, in a mixed run.
MIX: tuple[Size, ...] = ((3, 0), (3, 0), (3, 0), (3, 0), (3, 0), (3, 0), (5, 0), (3, 3), (1, 0), (1, 0))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="odradek sim", description=__doc__)
    parser.add_argument("--seeds", metavar="A..B", help="all seeds from A (default 0) up to, but not including, B")
    parser.add_argument("--seed", type=int, help="one seed")
    parser.add_argument("--nodes", type=int, default=1, help="number of brokers (default 1)")
    parser.add_argument(
        "--controllers", type=int, default=0, help="number of controllers (default: the brokers are controllers, too)"
    )
    parser.add_argument("--mixed", action="store_true", help="with --seeds: mixed cluster sizes, mostly three nodes")
    parser.add_argument("--jobs", type=int, default=1, help="with --seeds: number of processes")
    parser.add_argument("--trace", action="store_true", help="print every event")
    parser.add_argument("--bytes", action="store_true", help="with --trace: also every piece of data that arrives")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        return _one(options.seed, (options.nodes, options.controllers), trace=options.trace, pieces=options.bytes)
    first, _, last = (options.seeds or "0..100").rpartition("..")
    sizes = MIX if options.mixed else ((options.nodes, options.controllers),)
    return _many(range(int(first or 0), int(last)), sizes, options.jobs)


def _one(seed: int, size: Size, *, trace: bool, pieces: bool) -> int:
    def tell(now_ns: int, host: str, text: str) -> None:
        if pieces or " bytes " not in text:
            print(f"{now_ns / SECOND_NS:12.6f}  {host:<10} {text}")

    world = World(seed, nodes=size[0], controllers=size[1], story=tell if trace else None)
    if trace:
        logging.basicConfig(level=logging.INFO, handlers=[_Aside(world)])
    print(world.knobs)
    outcome = world.run()
    print(_line(outcome), outcome.digest)
    return 1 if outcome.problem else 0


def _many(seeds: range, sizes: tuple[Size, ...], jobs: int) -> int:
    """Seeds take their sizes from `sizes` in turn."""
    started = time.perf_counter()
    failed = 0
    faults: dict[str, int] = {}
    simulated_s = 0.0
    acked = polled = nearby = boots = compactions = 0
    transactions: Counter[str] = Counter()
    for outcome in _outcomes(seeds, sizes, jobs):
        for fault, count in outcome.faults.items():
            faults[fault] = faults.get(fault, 0) + count
        simulated_s += outcome.simulated_s
        acked += outcome.acked_records
        polled += outcome.polled_records
        nearby += outcome.polled_nearby
        boots += outcome.boots
        compactions += outcome.compactions
        transactions += outcome.transactions
        if outcome.problem is not None:
            failed += 1
            print(_line(outcome), flush=True)
    took = time.perf_counter() - started
    print(
        f"{len(seeds)} seeds of {_told(seeds, sizes)}, {failed} failed, "
        f"{took:.1f} s ({len(seeds) / took:.1f} seeds/s); "
        f"{simulated_s / 3600:.2f} simulated hours, {sum(faults.values())} faults, {boots} boots, "
        f"{compactions} compactions, {acked} records acknowledged, {polled} read, {nearby} of them from followers"
    )
    print("transactions: " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(transactions.items())))
    print("faults: " + ", ".join(f"{count} {fault}" for fault, count in sorted(faults.items()) if count))
    return 1 if failed else 0


def _told(seeds: range, sizes: tuple[Size, ...]) -> str:
    counts = Counter(sizes[seed % len(sizes)] for seed in seeds)
    return ", ".join(
        (f"{brokers} broker(s) and {controllers} controller(s)" if controllers else f"{brokers} node(s)")
        + (f" ({count})" if len(counts) > 1 else "")
        for (brokers, controllers), count in sorted(counts.items())
    )


def _outcomes(seeds: Iterable[int], sizes: tuple[Size, ...], jobs: int) -> Iterator[Outcome]:
    if jobs == 1:
        yield from map(partial(_run, sizes), seeds)
        return
    with ProcessPoolExecutor(jobs) as processes:
        yield from processes.map(partial(_run, sizes), seeds)


def _run(sizes: tuple[Size, ...], seed: int) -> Outcome:
    logging.disable()
    brokers, controllers = sizes[seed % len(sizes)]
    outcome = World(seed, nodes=brokers, controllers=controllers).run()
    if outcome.problem is not None:
        # The text can be sent to another process; the exception itself perhaps cannot.
        outcome.problem = RuntimeError(f"{type(outcome.problem).__name__}: {outcome.problem}")
    return outcome


class _Aside(logging.Handler):
    """Prints the node's own log lines at their place in the trace."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        loop = self._world.loop
        print(f"{loop.now_ns / SECOND_NS:12.6f}  {loop.current.name:<10}   {record.getMessage()}")


def _line(outcome: Outcome) -> str:
    verdict = "ok" if outcome.problem is None else f"FAILED {outcome.problem}"
    size = f"{outcome.knobs.nodes} nodes, " if outcome.knobs.nodes > 1 else ""
    return (
        f"seed {outcome.seed}: {verdict} ({size}{outcome.steps} steps, {outcome.simulated_s:.1f} s, "
        f"{outcome.boots} boots, {outcome.compactions} compactions, {outcome.acked_records} acknowledged, "
        f"{outcome.polled_records} read)"
    )


if __name__ == "__main__":
    sys.exit(main())
