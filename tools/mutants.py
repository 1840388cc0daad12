"""Changes one random place of a package at a time and runs the package's tests: which changes do they notice?

python tools/mutants.py                                   40 mutants in each of five packages
python tools/mutants.py --packages log --count 10 --seed 3
python tools/mutants.py --packages log --only 7 --diff    prints one mutant and does not run it

A mutant is killed when a test fails or takes far longer than before. What the tests miss is run with a few seeds of the
simulation. Survivors are printed: each is either a change that makes no difference or a gap in the tests.
Everything runs in a copy of the tree, with low priority.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("log", "replication", "quorum", "controller", "coordinator")
# For mutants that the tests miss: three nodes, five, three and three controllers, twice a single one.
SIMULATED = ("-m", "odradek.sim", "--seeds", "5..10", "--mixed")
TIMEOUT_FACTOR = 6
TIMEOUT_S_MIN = 120.0
SIMULATION_TIMEOUT_S = 900.0
NICENESS = 19
# A mutant may loop for ever.
MEMORY_BYTES_MAX = 8 << 30
FILE_BYTES_MAX = 1 << 30

_COMPARED: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_CALCULATED: dict[type[ast.operator], tuple[str, str]] = {ast.Add: ("+", "-"), ast.Sub: ("-", "+")}
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}
# What people read; no test has to notice.
_TOLD = frozenset({"log", "logger", "invariant", "__str__", "__repr__"})


@dataclass(frozen=True, kw_only=True)
class Mutant:
    path: Path  # below the root
    line: int
    what: str
    # The part of the file that is replaced.
    start: int
    end: int
    replacement: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.replacement.encode() + source[self.end :]

    def diff(self, root: Path) -> str:
        source = (root / self.path).read_bytes()
        before, after = source.decode().splitlines(), self.applied(source).decode().splitlines()
        changed = difflib.unified_diff(before, after, lineterm="", n=0)
        return "\n".join(line for line in changed if not line.startswith(("---", "+++", "@@")))


class Places:
    """Every place of one file that can be changed."""

    def __init__(self, path: Path, source: bytes) -> None:
        self._path = path
        self._source = source
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def mutants(self) -> Iterator[Mutant]:
        yield from self._in(ast.parse(self._source))

    def _in(self, node: ast.AST) -> Iterator[Mutant]:
        yield from self._of(node)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_params", "bases", "keywords") and not (
                isinstance(node, ast.Call) and name == "keywords"
            ):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not _is_told(child):
                    yield from self._in(child)

    def _of(self, node: ast.AST) -> Iterator[Mutant]:
        match node:
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                if not (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"):
                    yield self._mutant("negate the condition", test, f"not ({self._text(test)})")
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                before, after = _COMPARED[type(op)]
                yield self._between(f"{before} becomes {after}", left, right, before, after)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _CALCULATED:
                before, after = _CALCULATED[type(op)]
                yield self._between(f"{before} becomes {after}", left, right, before, after)
            case ast.BoolOp(op=op, values=[first, second, *_]):
                before, after = ("and", "or") if isinstance(op, ast.And) else ("or", "and")
                yield self._between(f"{before} becomes {after}", first, second, before, after)
            case ast.Constant(value=bool(value)):
                yield self._mutant(f"{value} becomes {not value}", node, str(not value))
            case ast.Constant(value=int(value)):
                yield self._mutant(f"{value} becomes {value + 1}", node, str(value + 1))
            case ast.Call(func=ast.Name(id=name)) if name in _CALLED:
                yield self._mutant(f"{name} becomes {_CALLED[name]}", node.func, _CALLED[name])
            case ast.Expr(value=ast.Call()) | ast.Raise() | ast.Delete() | ast.AugAssign():
                yield self._mutant(f"remove {self._short(node)}", node, "pass")
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                yield self._mutant(f"remove {self._short(node)}", node, "pass")
            case ast.Continue() | ast.Break():
                yield self._mutant(f"remove {self._short(node)}", node, "pass")

    def _mutant(self, what: str, node: ast.expr | ast.stmt, replacement: str) -> Mutant:
        start = self._lines[node.lineno - 1] + node.col_offset
        end = self._lines[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        return Mutant(path=self._path, line=node.lineno, what=what, start=start, end=end, replacement=replacement)

    def _between(self, what: str, left: ast.expr, right: ast.expr, before: str, after: str) -> Mutant:
        """Replaces the operator between two operands, which brackets and line ends may surround."""
        first, second = self._mutant(what, left, ""), self._mutant(what, right, "")
        between = self._source[first.end : second.start].decode()
        at = between.index(before)
        replacement = between[:at] + after + between[at + len(before) :]
        line = first.line + between[:at].count("\n")
        return Mutant(path=self._path, line=line, what=what, start=first.end, end=second.start, replacement=replacement)

    def _text(self, node: ast.expr) -> str:
        found = self._mutant("", node, "")
        return self._source[found.start : found.end].decode()

    def _short(self, node: ast.stmt) -> str:
        found = self._mutant("", node, "")
        text = " ".join(self._source[found.start : found.end].decode().split())
        return text if len(text) <= 60 else f"{text[:57]}..."


def _is_told(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name in _TOLD
        case ast.Expr(value=ast.Call(func=ast.Name(id=name))) | ast.FunctionDef(name=name):
            return name in _TOLD
        case ast.Assert() | ast.JoinedStr():
            return True
    return False


def mutants_of(root: Path, package: str) -> list[Mutant]:
    found: list[Mutant] = []
    for path in sorted((root / "src" / "odradek" / package).rglob("*.py")):
        found += Places(path.relative_to(root), path.read_bytes()).mutants()
    return found


class Tree:
    """A copy of what the tests need."""

    def __init__(self, root: Path) -> None:
        self.root = root
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc", ".mypy_cache")
        for name in ("src", "tests"):
            shutil.copytree(ROOT / name, root / name, ignore=ignored)
        shutil.copy(ROOT / "pyproject.toml", root)

    def passes(self, command: Sequence[str], timeout_s: float) -> bool | None:
        """None: it did not end in time."""
        environment = {**os.environ, "PYTHONPATH": f"{self.root / 'src'}:{self.root / 'tests'}"}
        with subprocess.Popen(  # noqa: S603
            [sys.executable, *command],
            cwd=self.root,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_limit,  # noqa: PLW1509
        ) as process:
            try:
                return process.wait(timeout_s) == 0
            except subprocess.TimeoutExpired:
                return None
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)

    def with_mutant(self, mutant: Mutant, package: str, timeout_s: float, *, simulates: bool) -> str | None:
        """What noticed it; None if it survives."""
        path = self.root / mutant.path
        source = path.read_bytes()
        self._write(path, mutant.applied(source))
        try:
            passed = self.passes(_tests_of(package), timeout_s)
            if passed is None:
                return "tests, timed out"
            if not passed:
                return "tests"
            simulated = not simulates or self.passes(SIMULATED, SIMULATION_TIMEOUT_S)
            return None if simulated else "simulation"
        finally:
            self._write(path, source)

    def _write(self, path: Path, source: bytes) -> None:
        """A cached module with the same size and second would hide the change."""
        path.write_bytes(source)
        for cached in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            cached.unlink()


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, FILE_BYTES_MAX))


def _tests_of(package: str) -> tuple[str, ...]:
    return ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", f"tests/{package}")


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def run(package: str, chosen: Sequence[Mutant], total: int, *, simulates: bool) -> list[Mutant]:
    """The survivors."""
    survivors: list[Mutant] = []
    noticed: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Tree(Path(folder))
        started = time.perf_counter()
        if not tree.passes(_tests_of(package), 3600.0):
            raise SystemExit(f"tests/{package} fails without any change: nothing can be learned")
        timeout_s = max(TIMEOUT_S_MIN, TIMEOUT_FACTOR * (time.perf_counter() - started))
        if simulates and not tree.passes(SIMULATED, 3600.0):
            raise SystemExit("the simulation fails without any change: nothing can be learned")
        for number, mutant in enumerate(chosen):
            by = tree.with_mutant(mutant, package, timeout_s, simulates=simulates)
            if by is None:
                survivors.append(mutant)
                tell(f"{package} {number} survives: {mutant}\n{mutant.diff(ROOT)}")
            else:
                noticed[by] = noticed.get(by, 0) + 1
                tell(f"{package} {number} killed by {by}: {mutant}")
    share = (len(chosen) - len(survivors)) / len(chosen)
    counts = ", ".join(f"{count} by {by}" for by, count in sorted(noticed.items()))
    tell(f"{package}: {len(chosen)} of {total} places, {share:.0%} killed ({counts}), {len(survivors)} survive")
    return survivors


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", nargs="+", default=list(PACKAGES))
    parser.add_argument("--count", type=int, default=40, help="mutants in each package")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="one mutant of the sample, by its number")
    parser.add_argument("--diff", action="store_true", help="print the mutants, run nothing")
    parser.add_argument("--no-simulation", action="store_true", help="run only the tests")
    options = parser.parse_args()
    os.nice(NICENESS)
    for package in options.packages:
        places = mutants_of(ROOT, package)
        rng = random.Random(f"{options.seed} {package}")  # noqa: S311
        chosen = rng.sample(places, min(options.count, len(places)))
        if options.only is not None:
            chosen = [chosen[options.only]]
        if options.diff:
            for number, mutant in enumerate(chosen):
                tell(f"{package} {number}: {mutant}\n{mutant.diff(ROOT)}")
        else:
            run(package, chosen, len(places), simulates=not options.no_simulation)
    return 0


if __name__ == "__main__":
    sys.exit(main())
