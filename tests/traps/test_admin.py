"""Topics and configurations as tools ask for them."""

from __future__ import annotations

from odradek.base import limits
from odradek.protocol.messages.p19_create_topics import CreatableTopic, CreateTopicsRequest


def test_a_refusal_quotes_no_more_than_a_reply_can_carry(wire):
    """A string before the flexible versions has at most 32767 bytes, and the name alone has as many."""
    wanted = CreatableTopic(name="L" * 32_767, num_partitions=1, replication_factor=1)
    (answer,) = wire.ask(CreateTopicsRequest(topics=[wanted]), 4).topics
    assert answer.error_code == 17
    assert len(answer.error_message) <= limits.error_message_chars_max
