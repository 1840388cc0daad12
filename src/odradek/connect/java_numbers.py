"""Numbers as Java converts and prints them, so that casts give the same results as in Kafka Connect."""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal

_DECIMAL_INTEGER = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"\s*([+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))[fFdD]?\s*")


def wrapped(number: int, bits: int) -> int:
    """The low bits of an integer, as a signed number: what a narrowing cast leaves."""
    low = number & ((1 << bits) - 1)
    return low - (1 << bits) if low >> (bits - 1) else low


def integer_of(number: float | Decimal, bits: int) -> int:
    """Integers and decimals keep their low bits. Floats are limited to the range first; NaN is 0."""
    if isinstance(number, float):
        if math.isnan(number):
            return 0
        wide = 1 << (63 if bits == 64 else 31)
        whole = int(max(min(number, wide), -wide)) if math.isinf(number) else int(number)
        return wrapped(max(min(whole, wide - 1), -wide), bits)
    return wrapped(int(number), bits)


def parsed_integer(text: str, bits: int) -> int:
    """Raises ValueError for other text, and for a number out of range."""
    if not _DECIMAL_INTEGER.fullmatch(text):
        raise ValueError(f"{text!r} is not an integer")
    number = int(text)
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise ValueError(f"{text} is out of range for int{bits}")
    return number


def parsed_float(text: str) -> float:
    found = _FLOAT.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is not a number")
    return float(found[1].replace("Infinity", "inf"))


def single(number: float) -> float:
    """The nearest number of 32 bits, with no more digits than it needs: 0.1, not 0.10000000149011612."""
    rounded = _rounded(number)
    return rounded if not math.isfinite(rounded) else float(_short_single(rounded))


def _rounded(number: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def _short_single(number: float) -> str:
    texts = (f"{number:.{size}e}" for size in range(9))
    return next(text for text in texts if _rounded(float(text)) == _rounded(number))


def float_text(number: float, *, is_single: bool = False) -> str:
    """`1.0`, `1.0E10`, `NaN`: scientific below 0.001 and from 10 million on."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "-0.0" if math.copysign(1, number) < 0 else "0.0"
    sign, digits, exponent = _shortest(number, is_single=is_single)
    point = len(digits) + exponent
    if -3 < point <= 7:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        whole, part = digits[:point].ljust(point, "0"), digits[point:]
        return f"{sign}{whole}.{part or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def _shortest(number: float, *, is_single: bool) -> tuple[str, str, int]:
    """Sign, digits and exponent of the shortest text that reads as the same number."""
    text = _short_single(number) if is_single else repr(number)
    negative, digits, exponent = Decimal(text).normalize().as_tuple()
    return "-" if negative else "", "".join(map(str, digits)), int(exponent)
