"""`make fuzz MINUTES=10`: runs the targets in turn under libFuzzer, guided by code coverage.

The input of a crash is kept under tests/fuzz/out/; `python tests/fuzz/run.py requests FILE` runs it again. Interesting
inputs are kept, too: the next run begins with them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
OUT = HERE / "out"
sys.path.insert(0, str(HERE.parent))


def main() -> int:
    if len(sys.argv) > 2 and not sys.argv[2].startswith("-"):
        return again(sys.argv[1], Path(sys.argv[2]))
    if len(sys.argv) > 1:
        return fuzz(sys.argv[1])
    return all_targets(float(os.environ.get("MINUTES") or 1))


def all_targets(minutes: float) -> int:
    from fuzz.targets import TARGETS

    failed = 0
    for name in TARGETS:
        seconds = max(int(minutes * 60 / len(TARGETS)), 5)
        print(f"{name}: {seconds} s", flush=True)
        failed += run_one(name, seconds)
    return 1 if failed else 0


def run_one(name: str, seconds: int) -> int:
    from fuzz.targets import seeds

    corpus, crashes = OUT / name / "corpus", OUT / name / "crashes"
    corpus.mkdir(parents=True, exist_ok=True)
    crashes.mkdir(exist_ok=True)
    for number, seed in enumerate(seeds(name)):
        (corpus / f"seed-{number}").write_bytes(seed)
    command = [sys.executable, __file__, name, f"-max_total_time={seconds}", f"-artifact_prefix={crashes}/",
               "-rss_limit_mb=1024", "-timeout=10", "-max_len=8192", "-print_final_stats=1", str(corpus)]  # fmt: skip
    started = time.monotonic()
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    runs = re.search(r"number_of_executed_units: (\d+)", told.stderr)
    coverage = re.findall(r"cov: (\d+)", told.stderr) or ["?"]
    print(
        f"  {runs[1] if runs else '?'} inputs in {time.monotonic() - started:.0f} s, {coverage[-1]} edges covered, "
        f"{len(list(corpus.iterdir()))} kept, exit {told.returncode}",
        flush=True,
    )
    if told.returncode:
        print(told.stdout[-4000:], told.stderr[-2000:], sep="\n", flush=True)
    return told.returncode


def fuzz(name: str) -> int:
    import atheris

    with atheris.instrument_imports(include=["odradek.protocol", "odradek.log", "odradek.telemetry", "odradek.base"]):
        from fuzz.targets import TARGETS, compile_codecs
    compile_codecs()
    atheris.instrument_all()
    atheris.Setup([sys.argv[0], *sys.argv[2:]], TARGETS[name])
    atheris.Fuzz()
    return 0


def again(name: str, file: Path) -> int:
    from fuzz.targets import TARGETS

    TARGETS[name](file.read_bytes())
    print("no error")
    return 0


if __name__ == "__main__":
    sys.exit(main())
