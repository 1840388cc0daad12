"""A list on a page: searched, sorted and cut into pages on the server, with every state in the address."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

from starlette.requests import Request

T = TypeVar("T")

ROWS = 50
ROWS_MAX = 500


class Listing(Generic[T]):
    """The rows of one page of a list.

        Listing(request, rows, columns={"name": lambda row: row.name, "size": lambda row: row.bytes}, found_in=...)

    `columns` maps a column to what it is sorted by; the first one is the default. The names in `down` are sorted from
    large to small at first. `found_in` returns the text in which the search looks: all words of it must occur.
    """

    def __init__(
        self,
        request: Request,
        rows: Sequence[T],
        *,
        columns: Mapping[str, Callable[[T], Any]],
        found_in: Callable[[T], str],
        down: Sequence[str] = (),
        sort: str | None = None,
        rows_per_page: int = ROWS,
    ) -> None:
        self._query = dict(request.query_params)
        self.path = request.url.path
        self.q = self._query.get("q", "").strip()
        wanted = self._query.get("sort", "")
        self._default = sort or next(iter(columns))
        self._falling = frozenset(down)
        name = wanted.removeprefix("-")
        self.sort = name if name in columns else self._default
        self.down = wanted.startswith("-") if name in columns else self.sort in self._falling
        words = self.q.lower().split()
        found = [row for row in rows if all(word in found_in(row).lower() for word in words)] if words else list(rows)
        found.sort(key=lambda row: _ordered(columns[self.sort](row)), reverse=self.down)
        self.total = len(found)
        self._size = min(max(_number(self._query.get("rows"), rows_per_page), 1), ROWS_MAX)
        self.pages = max(-(-self.total // self._size), 1)
        self.page = min(max(_number(self._query.get("page"), 1), 1), self.pages)
        self.rows = found[(self.page - 1) * self._size : self.page * self._size]

    @property
    def first(self) -> int:
        return (self.page - 1) * self._size + 1 if self.total else 0

    @property
    def last(self) -> int:
        return (self.page - 1) * self._size + len(self.rows)

    def at(self, page: int) -> str:
        return self._address({**self.kept("page"), "page": str(page)})

    def sorted_by(self, name: str) -> str:
        """A second click on a column turns its order around."""
        down = not self.down if name == self.sort else name in self._falling
        return self._address({**self.kept("page", "sort"), "sort": f"-{name}" if down else name})

    def with_(self, **changes: str) -> str:
        """The same list with other parameters, from its first page; an empty value removes one."""
        left = {name: value for name, value in {**self.kept("page"), **changes}.items() if value}
        return self._address(left)

    def kept(self, *without: str) -> dict[str, str]:
        return {name: value for name, value in self._query.items() if name not in without}

    def _address(self, query: Mapping[str, str]) -> str:
        return f"{self.path}?{urlencode(query)}" if query else self.path


def _ordered(value: object) -> tuple[int, object]:
    """Unknown values are the smallest."""
    return (0, 0) if value is None else (1, value)


def _number(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 10 else default
