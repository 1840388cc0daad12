"""The search over the whole cluster, as Ctrl-K shows it."""

from __future__ import annotations

from console.snapshots import healthy, with_group
from odradek.console.jumping import FOUND_MAX, jump
from odradek.console.pages import PAGES
from odradek.monitor.lag.evaluation import Status

SNAPSHOT = with_group(healthy(), "orders/eu", Status.OK)


def found(text: str) -> list[tuple[str, str]]:
    return [(each.kind, each.name) for each in jump(text, SNAPSHOT, PAGES)]


def test_all_words_must_occur_in_the_name_or_the_kind():
    assert found("ord") == [("topic", "orders"), ("group", "orders/eu")]
    assert found("group ord") == [("group", "orders/eu")]
    assert found("eu  ORD") == [("group", "orders/eu")]
    assert found("nothing") == []


def test_names_that_begin_with_the_text_come_first():
    assert found("b")[:1] == [("page", "Brokers")]
    assert found("2") == [("broker", "2")]


def test_names_that_begin_with_the_last_word_come_first_after_a_kind():
    snapshot = with_group(with_group(healthy(), "aord", Status.OK), "orders-of-europe", Status.OK)
    assert [each.name for each in jump("group ord", snapshot, PAGES)] == ["orders-of-europe", "aord"]


def test_addresses_of_strange_names_are_safe():
    [group] = jump("group", SNAPSHOT, PAGES)[-1:]
    assert group.path == "/groups/orders%2Feu"


def test_pages_that_are_hidden_are_not_found_and_the_list_is_short():
    assert ("page", "Streams") not in found("streams")
    assert len(found("")) <= FOUND_MAX
