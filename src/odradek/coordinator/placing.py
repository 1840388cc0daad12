"""Which partition of an internal topic has the state of a key. As in Kafka: its tools compute it, too."""

from __future__ import annotations

from functools import lru_cache


def partition_of(key: str, partition_count: int) -> int:
    return positive_java_hash(key) % partition_count


@lru_cache(maxsize=16_384)
def positive_java_hash(text: str) -> int:
    """The absolute value of Java's `String.hashCode`; 0 for -2**31, which has none."""
    code = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        code = (31 * code + unit) & 0xFFFFFFFF
    return code if code < 2**31 else (2**32 - code) % 2**31
