"""Evaluates the conditions of alerts, in the part of PromQL that the catalogue uses. Does no I/O.

The syntax:

    EXPRESSION > NUMBER, with one of the comparisons > < ==
    name{label="text", label=~"pattern"}                  also != and !~
    increase(name{…}[5m]), rate(…), max_over_time(…)
    max by (label) (EXPRESSION), sum by (label) (EXPRESSION)
    name / name, EXPRESSION - on (label) group_right name
    … and ignoring (label) EXPRESSION > NUMBER

Prometheus extrapolates `increase` and `rate` to the ends of the range; here they are the differences between samples.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from odradek.monitor.alerts.samples import Labels, Sample

Vector = dict[Labels, float]
Point = tuple[int, float]  # ms, value

_TOKEN = re.compile(
    r'\s*(?:(?P<text>"[^"]*")|(?P<word>[a-zA-Z_:][\w:]*)|(?P<number>\d+(?:\.\d+)?(?:e\d+)?)|(?P<sign>=~|!~|!=|==|\S))'
)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
FUNCTIONS = ("increase", "rate", "max_over_time")
AGGREGATES: Mapping[str, Callable[[Sequence[float]], float]] = {"max": max, "sum": sum}


class NotUnderstood(Exception):
    """The condition uses a part of PromQL that is not evaluated here."""


class Readings(Protocol):
    """Samples by metric: the last ones, and those of a range of time."""

    def instant(self, name: str) -> Sequence[Sample]: ...

    def series(self, name: str) -> Mapping[Labels, Sequence[Point]]: ...

    @property
    def at_ms(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Matcher:
    label: str
    pattern: re.Pattern[str]
    is_negative: bool

    def fits(self, labels: Mapping[str, str]) -> bool:
        """A missing label is the empty text."""
        return bool(self.pattern.fullmatch(labels.get(self.label, ""))) != self.is_negative


@dataclass(frozen=True, slots=True)
class Selector:
    name: str
    matchers: tuple[Matcher, ...]

    def fits(self, labels: Labels) -> bool:
        known = dict(labels)
        return all(each.fits(known) for each in self.matchers)

    def vector(self, readings: Readings) -> Vector:
        return {each.labels: each.value for each in readings.instant(self.name) if self.fits(each.labels)}

    @property
    def selectors(self) -> tuple[Selector, ...]:
        return (self,)

    @property
    def ranges_s(self) -> Mapping[str, int]:
        return {}


@dataclass(frozen=True, slots=True)
class Range:
    function: str
    selector: Selector
    window_s: int

    def vector(self, readings: Readings) -> Vector:
        first_ms = readings.at_ms - self.window_s * 1000
        found: Vector = {}
        for labels, points in readings.series(self.selector.name).items():
            values = [value for at_ms, value in points if at_ms >= first_ms]
            if not self.selector.fits(labels):
                continue
            if self.function == "max_over_time":
                if values:
                    found[labels] = max(values)
            elif len(values) > 1:
                grown = increase(values)
                found[labels] = grown / self.window_s if self.function == "rate" else grown
        return found

    @property
    def selectors(self) -> tuple[Selector, ...]:
        return (self.selector,)

    @property
    def ranges_s(self) -> Mapping[str, int]:
        return {self.selector.name: self.window_s}


@dataclass(frozen=True, slots=True)
class Aggregate:
    name: str
    by: tuple[str, ...]
    inner: Expression

    def vector(self, readings: Readings) -> Vector:
        groups: dict[Labels, list[float]] = {}
        for labels, value in self.inner.vector(readings).items():
            groups.setdefault(_only(labels, self.by), []).append(value)
        return {labels: AGGREGATES[self.name](values) for labels, values in groups.items()}

    @property
    def selectors(self) -> tuple[Selector, ...]:
        return self.inner.selectors

    @property
    def ranges_s(self) -> Mapping[str, int]:
        return self.inner.ranges_s


@dataclass(frozen=True, slots=True)
class Arithmetic:
    sign: str
    left: Expression
    right: Expression
    # Labels that both sides share; then each series of the right side has one on the left. None: all labels are equal.
    on: tuple[str, ...] | None

    def vector(self, readings: Readings) -> Vector:
        left, found = self.left.vector(readings), {}
        if self.on is not None:
            left = {_only(labels, self.on): value for labels, value in left.items()}
        for labels, value in self.right.vector(readings).items():
            other = left.get(labels if self.on is None else _only(labels, self.on))
            if other is None or (self.sign == "/" and value == 0):
                continue
            found[labels] = other / value if self.sign == "/" else other - value
        return found

    @property
    def selectors(self) -> tuple[Selector, ...]:
        return self.left.selectors + self.right.selectors

    @property
    def ranges_s(self) -> Mapping[str, int]:
        return {**self.left.ranges_s, **self.right.ranges_s}


@dataclass(frozen=True, slots=True)
class Guarded:
    """The series of `inner` for which another condition holds, too. Their labels are equal but for those ignored."""

    inner: Expression
    ignoring: tuple[str, ...]
    guard: Condition

    def vector(self, readings: Readings) -> Vector:
        others = self.guard.expression.vector(readings).items()
        holding = {_without(labels, self.ignoring) for labels, value in others if self.guard.holds(value)}
        found = self.inner.vector(readings).items()
        return {labels: value for labels, value in found if _without(labels, self.ignoring) in holding}

    @property
    def selectors(self) -> tuple[Selector, ...]:
        return self.inner.selectors + self.guard.expression.selectors

    @property
    def ranges_s(self) -> Mapping[str, int]:
        return {**self.inner.ranges_s, **self.guard.expression.ranges_s}


Expression = Selector | Range | Aggregate | Arithmetic | Guarded


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison with a number, which each series of the expression may fulfil."""

    expression: Expression
    comparison: str
    threshold: float

    def holds(self, value: float) -> bool:
        """NaN fulfils nothing."""
        if self.comparison == ">":
            return value > self.threshold
        return value < self.threshold if self.comparison == "<" else value == self.threshold

    @property
    def names(self) -> frozenset[str]:
        return frozenset(each.name for each in self.expression.selectors)


def increase(values: Sequence[float]) -> float:
    """How much a counter grew. A smaller value means that its process was restarted, and the counter with it."""
    return sum(now if now < before else now - before for before, now in pairwise(values))


def _only(labels: Labels, names: Sequence[str]) -> Labels:
    return tuple((name, text) for name, text in labels if name in names)


def _without(labels: Labels, names: Sequence[str]) -> Labels:
    return tuple((name, text) for name, text in labels if name not in names)


def parsed(text: str) -> Condition:
    """Raises NotUnderstood."""
    reader = _Reader(text)
    condition = reader.condition()
    if reader.ahead == "and":
        reader.take()
        ignored = reader.ignored()
        inner = Guarded(condition.expression, ignored, reader.condition())
        condition = Condition(inner, condition.comparison, condition.threshold)
    if reader.ahead:
        raise NotUnderstood(f"{text}: {reader.ahead} after the comparison is not understood")
    return condition


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [each.group().strip() for each in _TOKEN.finditer(text) if each.group().strip()]
        self._at = 0

    @property
    def ahead(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.ahead
        if not token or (expected and token != expected):
            raise NotUnderstood(f"{self._text}: expected {expected or 'more'}, found {token or 'the end'}")
        self._at += 1
        return token

    def number(self) -> float:
        token = self.take()
        try:
            return float(token)
        except ValueError:
            raise NotUnderstood(f"{self._text}: {token} is not a number") from None

    def condition(self) -> Condition:
        expression = self.expression()
        comparison = self.take()
        if comparison not in (">", "<", "=="):
            raise NotUnderstood(f"{self._text}: expected a comparison with >, < or ==")
        return Condition(expression, comparison, self.number())

    def ignored(self) -> tuple[str, ...]:
        self.take("ignoring")
        return self._names()

    def expression(self) -> Expression:
        left = self._term()
        while self.ahead in ("/", "-"):
            sign, on = self.take(), None
            if self.ahead == "on":
                self.take()
                on = self._names()
                self.take("group_right")
            left = Arithmetic(sign, left, self._term(), on)
        return left

    def _term(self) -> Expression:
        if self.ahead == "(":
            self.take()
            inner = self.expression()
            self.take(")")
            return inner
        name = self.take()
        if name in AGGREGATES and self.ahead == "by":
            self.take()
            by = self._names()
            self.take("(")
            inner = self.expression()
            self.take(")")
            return Aggregate(name, by, inner)
        if self.ahead != "(":
            return self._selector(name)
        if name not in FUNCTIONS:
            raise NotUnderstood(f"{self._text}: the function {name} is not evaluated here")
        self.take()
        selector = self._selector(self.take())
        window_s = self._window()
        self.take(")")
        return Range(name, selector, window_s)

    def _names(self) -> tuple[str, ...]:
        self.take("(")
        found = [self.take()]
        while self.ahead == ",":
            self.take()
            found.append(self.take())
        self.take(")")
        return tuple(found)

    def _selector(self, name: str) -> Selector:
        if not re.fullmatch(r"[a-zA-Z_:][\w:]*", name):
            raise NotUnderstood(f"{self._text}: {name} is not the name of a metric")
        matchers: list[Matcher] = []
        if self.ahead == "{":
            self.take()
            while self.ahead != "}":
                matchers.append(self._matcher())
                if self.ahead == ",":
                    self.take()
            self.take("}")
        return Selector(name, tuple(matchers))

    def _matcher(self) -> Matcher:
        label, sign, text = self.take(), self.take(), self.take()
        if sign not in ("=", "!=", "=~", "!~") or not text.startswith('"'):
            raise NotUnderstood(f"{self._text}: {label}{sign}{text} is not a condition on a label")
        pattern = text[1:-1] if sign.endswith("~") else re.escape(text[1:-1])
        return Matcher(label, re.compile(pattern), sign.startswith("!"))

    def _window(self) -> int:
        self.take("[")
        text = self.take()
        unit = self.take() if text.isdecimal() else ""
        if unit not in _SECONDS:
            raise NotUnderstood(f"{self._text}: {text}{unit} is not a range of time such as 5m")
        self.take("]")
        return int(text) * _SECONDS[unit]
