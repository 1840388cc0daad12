"""`make copiers`: each client copies a topic in transactions on three nodes, while copiers and brokers are killed.

    make copiers SECONDS=600 CLIENTS='java franz-go'

The last copier has no transactions: the comparison must find its duplicates.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from support.copying.ordeal import Pace, in_python, run
from support.foreign_programs import compiled, go_program, java
from support.kafka_process import jars, tools

PLAIN = "without-transactions"
COMMANDS: dict[str, Callable[[], Sequence[str]]] = {
    "confluent-kafka": lambda: in_python("confluent_kafka"),
    "aiokafka": lambda: in_python("aiokafka"),
    "java": lambda: java("Copier", classpath=[compiled("java", [jars(), tools()]), jars()]),
    "franz-go": lambda: [str(go_program("franz")), "copy"],
    PLAIN: lambda: in_python("confluent_kafka", "plain"),
}
PACE = Pace(copiers=(1.0, 8.0), brokers=(2.0, 10.0))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0, help="for each client")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--clients", default=" ".join(COMMANDS), help="names with blanks between them")
    parser.add_argument("--log", type=Path, help="a folder for the output of brokers and copiers")
    options = parser.parse_args()
    wrong = []
    for client in options.clients.split():
        folder = (options.log or Path(tempfile.mkdtemp(prefix="copiers-"))) / client
        folder.mkdir(parents=True, exist_ok=True)
        figures = run(COMMANDS[client](), options.seconds, options.seed, pace=PACE, log=folder)
        print(f"{client}, seed {options.seed}, {options.seconds:.0f} s: {figures}; log: {folder}", flush=True)
        judged = figures.judgement
        if judged.is_exact == (client == PLAIN):
            wrong.append(client)
            for what in ("missing", "duplicates", "misplaced", "torn"):
                print(f"  {what}: {getattr(judged, what)[:20]}", flush=True)
    print(
        f"not as expected: {' '.join(wrong)}" if wrong else "as expected: exactly once in transactions, and only there"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
