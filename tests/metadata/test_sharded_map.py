from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.metadata.sharded_map import ShardedMap, shard_of_text


@given(st.lists(st.dictionaries(st.text(max_size=3), st.one_of(st.none(), st.integers()), max_size=5), max_size=20))
def test_behaves_like_a_dict_and_keeps_every_version(steps):
    versions = [(ShardedMap(shard_of_text), {})]
    for changes in steps:
        sharded, plain = versions[-1]
        following = {k: v for k, v in {**plain, **changes}.items() if v is not None}
        versions.append((sharded.changed(changes), following))
    for sharded, plain in versions:
        assert dict(sharded) == plain
        assert len(sharded) == len(plain)


def test_a_change_copies_one_shard():
    whole = ShardedMap(shard_of_text).changed({f"topic-{n}": n for n in range(1000)})
    following = whole.changed({"topic-7": 8})
    shared = sum(a is b for a, b in zip(whole._shards, following._shards, strict=True))
    assert shared == 255
