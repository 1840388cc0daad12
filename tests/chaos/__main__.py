"""`make chaos MINUTES=10 SEED=7`: real processes on loopback, with faults; a checker reads what the clients saw."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from chaos.report import record, table, where_to_look
from chaos.run import Run, end_on_sigterm, new_directory


def main() -> int:
    arguments = argparse.ArgumentParser(prog="chaos", description=__doc__)
    arguments.add_argument("--minutes", type=float, default=10)
    arguments.add_argument("--seed", type=int, default=None, help="selects the faults and their order")
    arguments.add_argument("--out", type=Path, default=Path("build/chaos"))
    arguments.add_argument("--record", type=Path, help="page in which to replace the last run by this one")
    options = arguments.parse_args()
    seed = int(time.time()) % 1_000_000 if options.seed is None else options.seed
    end_on_sigterm()
    out = new_directory(options.out, seed)
    print(f"chaos: {options.minutes:g} minutes, seed {seed}, {out}", flush=True)
    outcome = Run(seed=seed, minutes=options.minutes, out=out, say=lambda line: print(line, flush=True)).play()
    text = table(outcome)
    (out / "verdict.txt").write_text(text)
    print(text)
    print(where_to_look(outcome, seed))
    if options.record and outcome.clean:
        record(outcome, seed, options.record)
    return 0 if outcome.clean else 1


if __name__ == "__main__":
    sys.exit(main())
