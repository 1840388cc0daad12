"""`python -m odradek.sim --seeds 0..100` runs many, `--seed 7 --trace` tells the story of one."""

from __future__ import annotations

import argparse
import logging
import sys
import time

from odradek.sim.loop import SECOND_NS
from odradek.sim.world import Outcome, World


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="odradek sim", description=__doc__)
    parser.add_argument("--seeds", metavar="A..B", help="every seed from A up to, not including, B")
    parser.add_argument("--seed", type=int, help="one seed")
    parser.add_argument("--trace", action="store_true", help="tell what happens")
    parser.add_argument("--bytes", action="store_true", help="with --trace: every piece that arrives, too")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        return _one(options.seed, trace=options.trace, pieces=options.bytes)
    first, _, last = (options.seeds or "0..100").rpartition("..")
    return _many(range(int(first or 0), int(last)))


def _one(seed: int, *, trace: bool, pieces: bool) -> int:
    def tell(now_ns: int, host: str, text: str) -> None:
        if pieces or " bytes " not in text:
            print(f"{now_ns / SECOND_NS:12.6f}  {host:<10} {text}")

    world = World(seed, story=tell if trace else None)
    if trace:
        logging.basicConfig(level=logging.INFO, handlers=[_Aside(world)])
    print(world.knobs)
    outcome = world.run()
    print(_line(outcome), outcome.digest)
    return 1 if outcome.problem else 0


def _many(seeds: range) -> int:
    logging.disable()
    started = time.perf_counter()
    failed = 0
    faults: dict[str, int] = {}
    simulated_s = 0.0
    acked = polled = boots = 0
    for seed in seeds:
        outcome = World(seed).run()
        for fault, count in outcome.faults.items():
            faults[fault] = faults.get(fault, 0) + count
        simulated_s += outcome.simulated_s
        acked += outcome.acked_records
        polled += outcome.polled_records
        boots += outcome.boots
        if outcome.problem is not None:
            failed += 1
            print(_line(outcome))
    took = time.perf_counter() - started
    print(
        f"{len(seeds)} seeds, {failed} failed, {took:.1f} s ({len(seeds) / took:.1f} seeds/s); "
        f"{simulated_s / 3600:.2f} simulated hours, {boots} boots, {acked} records acknowledged, {polled} read"
    )
    print("faults: " + ", ".join(f"{count} {fault}" for fault, count in sorted(faults.items()) if count))
    return 1 if failed else 0


class _Aside(logging.Handler):
    """What the node itself says, at its place in the story."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        print(f"{self._world.loop.time():12.6f}  {self._world.loop.current.name:<10}   {record.getMessage()}")


def _line(outcome: Outcome) -> str:
    verdict = "ok" if outcome.problem is None else f"FAILED {outcome.problem}"
    return (
        f"seed {outcome.seed}: {verdict} ({outcome.steps} steps, {outcome.simulated_s:.1f} s, {outcome.boots} boots, "
        f"{outcome.acked_records} acknowledged, {outcome.polled_records} read)"
    )


if __name__ == "__main__":
    sys.exit(main())
