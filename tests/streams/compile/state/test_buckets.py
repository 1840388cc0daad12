from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from odradek.streams.compile.state.buckets import SCAN_FROM, SCAN_RATIO, Entries


class Shelf:
    """What Spark's MapState does, in memory; it counts how often it is asked what."""

    def __init__(self, content: dict) -> None:
        self.content = dict(content)
        self.asked: Counter[str] = Counter()

    def getValue(self, key):  # noqa: N802
        self.asked["value"] += 1
        return self.content.get(key)

    def updateValue(self, key, value):  # noqa: N802
        self.asked["update"] += 1
        self.content[key] = value

    def removeKey(self, key):  # noqa: N802
        self.content.pop(key, None)

    def iterator(self):
        for item in list(self.content.items()):
            self.asked["scanned"] += 1
            yield item


KEYS = st.integers(0, 300).map(lambda n: (n,))
ENTRIES = st.integers(0, 3).map(lambda n: (n,))


@given(
    st.dictionaries(KEYS, ENTRIES),
    st.lists(KEYS, max_size=100),
    st.lists(st.tuples(KEYS, st.none() | ENTRIES | st.just("read"))),
)
def test_the_map_is_what_a_dict_would_be(content, expected, steps) -> None:
    shelf, model = Shelf(content), dict(content)
    entries = Entries(shelf)
    entries.expect(expected)
    for key, entry in steps:
        if entry == "read":
            assert entries[key] == model.get(key)
        else:
            entries[key] = entry
            model[key] = entry
    entries.save()
    assert shelf.content == {key: entry for key, entry in model.items() if entry is not None}


def test_a_small_bucket_is_read_at_once_and_a_large_one_key_by_key() -> None:
    wanted = [(n,) for n in range(SCAN_FROM)]
    small = Shelf({(n,): (n,) for n in range(SCAN_FROM)})
    entries = Entries(small)
    entries.expect(wanted)
    assert [entries[key] for key in wanted] == wanted
    assert small.asked == {"scanned": SCAN_FROM}

    large = Shelf({(n,): (n,) for n in range(SCAN_FROM * 100)})
    entries = Entries(large)
    entries.expect([(n * 90,) for n in range(SCAN_FROM)])
    assert [entries[(n * 90,)] for n in range(SCAN_FROM)] == [(n * 90,) for n in range(SCAN_FROM)]
    assert large.asked["scanned"] <= SCAN_RATIO * SCAN_FROM + 1


def test_only_what_changed_is_written() -> None:
    shelf = Shelf({(1,): (7,)})
    entries = Entries(shelf)
    assert entries[(1,)] == (7,)
    entries[(1,)] = (7,)
    entries[(2,)] = (8,)
    entries[(2,)] = (9,)
    entries.save()
    assert shelf.asked["update"] == 1
    assert shelf.content[(2,)] == (9,)
