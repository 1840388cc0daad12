"""Lists: search, order and pages, with every state in the address."""

from __future__ import annotations

from starlette.requests import Request

from odradek.console.listing import Listing

ROWS = [("apples", 3), ("pears", None), ("plums", 20), ("figs", 1)]


def listed(query: str = "", *, rows_per_page: int = 50) -> Listing[tuple[str, int | None]]:
    request = Request(
        {"type": "http", "method": "GET", "path": "/fruit", "query_string": query.encode(), "headers": []}
    )
    columns = {"name": lambda row: row[0], "count": lambda row: row[1]}
    return Listing(
        request, ROWS, columns=columns, found_in=lambda row: row[0], down=["count"], rows_per_page=rows_per_page
    )


def names(found: Listing[tuple[str, int | None]]) -> list[str]:
    return [name for name, _ in found.rows]


def test_rows_are_sorted_by_the_first_column_at_first():
    assert names(listed()) == ["apples", "figs", "pears", "plums"]


def test_unknown_values_are_the_smallest():
    assert names(listed("sort=-count")) == ["plums", "apples", "figs", "pears"]


def test_a_second_click_turns_the_order_around():
    assert listed().sorted_by("count") == "/fruit?sort=-count"
    assert listed("sort=-count").sorted_by("count") == "/fruit?sort=count"


def test_all_words_of_a_search_must_occur():
    assert names(listed("q=p+l")) == ["apples", "plums"]


def test_pages_keep_search_and_order():
    found = listed("q=p&sort=-name&page=2", rows_per_page=2)
    assert (names(found), found.first, found.last, found.total, found.pages) == (["apples"], 3, 3, 3, 2)
    assert found.at(1) == "/fruit?q=p&sort=-name&page=1"


def test_nonsense_in_the_address_shows_the_first_page():
    assert names(listed("page=x&sort=;drop&rows=-1")) == ["apples", "figs", "pears", "plums"]
    assert listed("page=99").page == 1
