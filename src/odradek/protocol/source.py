"""The source text of a generated function: indentation, unique names, and the objects that the text uses."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any


class Source:
    def __init__(self, **names: object) -> None:
        self.names: dict[str, Any] = dict(names)
        self._lines: list[str] = []
        self._depth = 0
        self._fresh = 0
        self._known: dict[Hashable, str] = {}

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        self.line(opening)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        self._fresh += 1
        return f"{stem}{self._fresh}"

    def constant(self, stem: str, key: Hashable, make: Callable[[], object]) -> str:
        """The name of an object in the generated function. Equal keys share one name."""
        if key not in self._known:
            name = self._known[key] = self.fresh(stem)
            self.names[name] = make()
        return self._known[key]

    def build(self, function: str, filename: str) -> Callable[..., Any]:
        text = "\n".join(self._lines)
        exec(compile(text, filename, "exec"), self.names)  # noqa: S102 - the text comes from our own tables
        return self.names[function]  # type: ignore[no-any-return]
