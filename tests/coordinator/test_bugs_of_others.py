"""Bugs of other coordinators, replayed with our groups; docs/internals/bugs-of-others.md has the list."""

from __future__ import annotations

from odradek.base.errors import ErrorCode
from support.group_story import Story

RETENTION_MS = 60_000
CHECK_MS = 1000


def test_kafka_8069_offsets_do_not_expire_because_another_broker_has_loaded_them():
    """A commit without a retention of its own expires by the group's clock, also where it was read from the log."""
    config = {"offsets_retention_ms": RETENTION_MS, "offsets_retention_check_interval_ms": CHECK_MS}
    story = Story(**config)
    story.commit_offset(7)
    elsewhere = Story(**config)
    elsewhere.ms = story.ms + RETENTION_MS // 2
    elsewhere.shard = story.replayed()
    elsewhere.shard.config = elsewhere.config
    elsewhere.load()
    elsewhere.pass_time(3 * CHECK_MS)
    assert elsewhere.committed().offset == 7
    elsewhere.pass_time(RETENTION_MS)
    assert elsewhere.committed() is None


def test_kafka_9801_a_static_member_that_returns_twice_during_one_rebalance_gets_its_assignment():
    """Its id was replaced while it waited, and the leader assigned to the new id: its assignment must not be empty."""
    story = Story()
    story.join("bob", knows_its_id=True)
    story.join("s", instance="s1")
    story.pass_time(0)
    bob = story.answer("bob").member_id
    story.answer("s")
    story.join("s again", instance="s1")
    story.join("s at last", instance="s1")
    joined = story.join("bob", bob)
    last = story.answer("s at last")
    assert (joined.generation_id, last.generation_id) == (2, 2)
    assert sorted(member.member_id for member in joined.members) == sorted([bob, last.member_id])
    story.settle({"bob": bob, "s at last": last.member_id})
    assert story.sync("s at last", last.member_id, 2, instance="s1").assignment == b"s at last"


def test_kafka_9844_a_full_group_accepts_no_member_however_many_join_at_once():
    """All of them were given an id while there was still room."""
    story = Story(max_size=2)
    ids = {name: story.join(name).member_id for name in ("alice", "bob", "carol")}
    answers = [story.join(name, ids[name]) for name in ids]
    assert [answer.error_code for answer in answers if answer is not None] == [ErrorCode.GROUP_MAX_SIZE_REACHED]
    story.pass_time(0)
    assert len(story.group.members) == 2
