"""Keys as bytes: equal keys give equal bytes, and others do not."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from odradek.streams.engine.keys import key_bytes


def test_decimals_of_38_digits_that_differ_in_the_last_one_are_different_keys():
    one, other = Decimal("1" * 38), Decimal("1" * 37 + "2")
    assert key_bytes((one,)) != key_bytes((other,))


def test_equal_decimals_are_one_key_whatever_their_scale():
    assert key_bytes((Decimal("1.00"),)) == key_bytes((Decimal(1),))


def test_nan_and_the_two_zeros_are_one_key_each():
    assert key_bytes((float("nan"),)) == key_bytes((float("inf") - float("inf"),))
    assert key_bytes((0.0,)) == key_bytes((-0.0,))


def test_a_length_of_time_can_be_a_key():
    assert key_bytes((timedelta(hours=24),)) == key_bytes((timedelta(days=1),)) != key_bytes((timedelta(days=2),))
