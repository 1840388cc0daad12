"""One turn of the groups of a partition: the effects it collects, and the settings its rules read."""

from __future__ import annotations

from odradek.coordinator.effects import Effects, Now, TimerKey
from odradek.coordinator.group.classic_group import ClassicGroup, Member
from odradek.coordinator.group.config import GroupConfig


class Turn(Effects):
    __slots__ = ("config",)

    def __init__(self, now: Now, config: GroupConfig) -> None:
        super().__init__(now)
        self.config = config

    def expect_heartbeat(self, group: ClassicGroup, member: Member) -> None:
        self.set_timer(session_timer(group, member.member_id), member.session_timeout_ms)


def session_timer(group: ClassicGroup, member_id: str) -> TimerKey:
    return ("session", group.group_id, member_id)


def join_timer(group: ClassicGroup) -> TimerKey:
    return ("join", group.group_id, "")


def sync_timer(group: ClassicGroup) -> TimerKey:
    return ("sync", group.group_id, "")
