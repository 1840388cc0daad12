"""The committed view of a map is what the newest view was at the high watermark."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.coordinator.two_views import TwoViews

changes = st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 3)), max_size=12)


def applied(changes) -> dict[str, int]:
    view: dict[str, int] = {}
    for key, value in changes:
        if value is None:
            view.pop(key, None)
        else:
            view[key] = value
    return view


@given(changes, st.data())
def test_committed_is_newest_as_of_the_high_watermark(changes, data):
    views: TwoViews[str, int] = TwoViews()
    high_watermark = 0
    for at, (key, value) in enumerate(changes):
        views.put(key, value, at)
        high_watermark = data.draw(st.integers(high_watermark, at + 1))
        views.commit(high_watermark)
        committed = applied(changes[:high_watermark])
        assert views.newest == applied(changes[: at + 1])
        assert views.committed() == committed
        assert {key: views.committed_value(key) for key in "abc"} == {key: committed.get(key) for key in "abc"}
    views.commit(len(changes))
    assert views.committed() is views.newest
    assert bool(views) == bool(applied(changes))
