"""Keys are in the same partition of an internal topic as in Kafka."""

from __future__ import annotations

import pytest

from odradek.coordinator.placing import positive_java_hash


@pytest.mark.parametrize(
    ("text", "java"),
    [("", 0), ("hello", 99162322), ("Hello World", 862545276), ("polygenelubricants", 0), ("🚚", 1773053)],
)
def test_t64_the_partition_of_a_group_is_javas_hash_without_its_sign(text, java):
    assert positive_java_hash(text) == java
