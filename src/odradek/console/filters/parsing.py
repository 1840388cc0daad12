"""Parses and checks a filter: `or` binds weaker than `and`, `and` weaker than `not`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from odradek.console.filters.errors import BadFilter
from odradek.console.filters.limits import DEPTH_MAX, PATTERN_BYTES_MAX, PATTERN_CHARS_MAX, STEPS_MAX, TESTS_MAX
from odradek.console.filters.moments import FORMS, moment_ms
from odradek.console.filters.tokens import Kind, Token, tokens
from odradek.console.filters.tree import (
    COMPARISONS,
    MIRRORED,
    And,
    Anywhere,
    Compare,
    Contains,
    Document,
    Header,
    IsNull,
    IsTrue,
    Like,
    Node,
    Not,
    Number,
    OneOf,
    Operand,
    Or,
    Scalar,
)

FIELDS = "key, value, header, partition, offset, timestamp or size"
TESTS = '==, !=, <, <=, >, >=, ~, !~, "contains", "in (…)" or "is null"'
_CONSTANTS: dict[str, Scalar] = {"true": True, "false": False}
_KEYWORDS = frozenset({"and", "or", "not", "in", "is", "null", "contains", "true", "false"})


def parsed(text: str, now_ms: int | None = None) -> Node:
    """The tree of a filter. Raises BadFilter. `now_ms` is the time that "-15m" counts from."""
    parser = _Parser(list(tokens(text)), int(time.time() * 1000) if now_ms is None else now_ms)
    return parser.whole()


def operand(text: str) -> Operand:
    """A path alone, such as `value.driver.id` or `header["trace-id"]`. Raises BadFilter."""
    parser = _Parser(list(tokens(text)), 0)
    return parser.path()


class _Parser:
    def __init__(self, found: Sequence[Token], now_ms: int) -> None:
        self._tokens = found
        self._now_ms = now_ms
        self._at = 0
        self._depth = 0
        self._tests = 0

    # Tokens

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._next
        self._at += token.kind is not Kind.END
        return token

    def _is(self, *texts: str) -> bool:
        return self._next.kind in (Kind.WORD, Kind.SYMBOL) and self._next.text in texts

    def _took(self, text: str) -> bool:
        found = self._is(text)
        self._at += found
        return found

    def _expect(self, text: str) -> None:
        if not self._took(text):
            raise BadFilter(self._next.column, f'expected "{text}", found {self._next}')

    # Grammar

    def whole(self) -> Node:
        if self._ended():
            raise BadFilter(1, f"the filter is empty; a test begins with {FIELDS}")
        node = self._any()
        if not self._ended():
            raise BadFilter(self._next.column, f'expected "and", "or" or the end, found {self._next}')
        return node

    def path(self) -> Operand:
        found = self._operand()
        if not self._ended():
            raise BadFilter(self._next.column, f"expected the end, found {self._next}")
        return found

    def _any(self) -> Node:
        return self._joined("or", self._all, Or)

    def _all(self) -> Node:
        return self._joined("and", self._negated, And)

    def _joined(self, word: str, inner: Callable[[], Node], kind: type[And | Or]) -> Node:
        nodes = [inner()]
        while self._took(word):
            nodes.append(inner())
        return nodes[0] if len(nodes) == 1 else kind(tuple(nodes))

    def _negated(self) -> Node:
        if not self._is("not", "("):
            return self._test()
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise BadFilter(self._next.column, f"more than {DEPTH_MAX} nested parentheses")
        if self._took("not"):
            node: Node = Not(self._negated())
        else:
            self._take()
            node = self._any()
            self._expect(")")
        self._depth -= 1
        return node

    def _test(self) -> Node:
        self._tests += 1
        if self._tests > TESTS_MAX:
            raise BadFilter(self._next.column, f"more than {TESTS_MAX} tests")
        if self._next.kind in (Kind.TEXT, Kind.NUMBER) or self._is(*_CONSTANTS):
            return self._literal_first()
        first = self._next
        operand = self._operand()
        if self._is(*COMPARISONS):
            return self._comparison(operand, self._take().text)
        if self._is("not") and self._tokens[self._at + 1].text == "in":
            self._take()
            return Not(self._one_of(operand))
        if self._is("in"):
            return self._one_of(operand)
        return self._test_of_text(operand, first)

    def _test_of_text(self, operand: Operand, first: Token) -> Node:
        if isinstance(operand, Number):
            if self._is("~", "!~", "contains", "is"):
                raise BadFilter(self._next.column, f"{operand.name} is a number: expected ==, <, > or in (…)")
            raise BadFilter(self._next.column, f"expected a comparison of {operand.name}, found {self._next}")
        if self._took("contains"):
            return Contains(operand, self._text("contains"))
        if self._took("~"):
            return self._like(operand)
        if self._took("!~"):
            return Not(self._like(operand))
        if self._took("is"):
            negated = self._took("not")
            self._expect("null")
            return Not(IsNull(operand)) if negated else IsNull(operand)
        if isinstance(operand, Document) and operand.steps and (self._is("and", "or", ")") or self._ended()):
            return IsTrue(operand)
        if self._ended():
            raise BadFilter(self._next.column, f"expected a test after {first}: {TESTS}")
        raise BadFilter(self._next.column, f"expected {TESTS}, found {self._next}")

    def _ended(self) -> bool:
        return self._next.kind is Kind.END

    def _literal_first(self) -> Node:
        token = self._take()
        if self._is(*COMPARISONS):
            mirrored = MIRRORED[self._take().text]
            return self._compared(self._operand(), mirrored, token)
        if token.kind is Kind.TEXT and token.value:
            return Anywhere(str(token.value))
        raise BadFilter(token.column, f"{token} alone is no test; begin with {FIELDS}, or search for a text in quotes")

    def _comparison(self, operand: Operand, comparison: str) -> Node:
        if self._took("null"):
            if isinstance(operand, Number) or comparison not in ("==", "!="):
                raise BadFilter(self._tokens[self._at - 1].column, "null can be tested only with ==, != or is")
            return IsNull(operand) if comparison == "==" else Not(IsNull(operand))
        return self._compared(operand, comparison, self._take())

    def _compared(self, operand: Operand, comparison: str, token: Token) -> Node:
        literal = self._literal(operand, token)
        if isinstance(literal, bool) and comparison not in ("==", "!="):
            raise BadFilter(token.column, f"{token.text} can be compared only with == and !=")
        if comparison == "!=":
            return Not(Compare(operand, "==", literal))
        return Compare(operand, comparison, literal)

    def _one_of(self, operand: Operand) -> Node:
        self._expect("in")
        self._expect("(")
        literals = [self._literal(operand, self._take())]
        while self._took(","):
            literals.append(self._literal(operand, self._take()))
        self._expect(")")
        return OneOf(operand, tuple(literals))

    # Operands and literals

    def _operand(self) -> Operand:
        token = self._take()
        if token.kind is not Kind.WORD or token.text in _KEYWORDS:
            raise BadFilter(token.column, f"expected {FIELDS}, found {token}")
        if token.text in ("header", "headers"):
            steps = self._steps()
            if len(steps) != 1 or not isinstance(steps[0], str):
                raise BadFilter(token.column, 'a header needs its name: header["trace-id"]')
            return Header(steps[0])
        if token.text in ("key", "value"):
            return Document("key" if token.text == "key" else "value", tuple(self._steps()))
        if token.text in ("partition", "offset", "timestamp", "size"):
            if self._is(".", "["):
                raise BadFilter(self._next.column, f"{token.text} is a number and has no fields")
            return Number(token.text)  # type: ignore[arg-type]  # it is one of the literals
        hint = f"; did you mean value.{token.text}?" if token.kind is Kind.WORD else ""
        raise BadFilter(token.column, f"there is no field {token}, only {FIELDS}{hint}")

    def _steps(self) -> list[str | int]:
        steps: list[str | int] = []
        while self._is(".", "["):
            if len(steps) == STEPS_MAX:
                raise BadFilter(self._next.column, f"a path of more than {STEPS_MAX} steps")
            steps.append(self._step())
        return steps

    def _step(self) -> str | int:
        symbol, token = self._take(), self._take()
        if symbol.text == ".":
            if token.kind is not Kind.WORD:
                raise BadFilter(token.column, f'expected the name of a field after ".", found {token}')
            return token.text
        if token.kind is Kind.TEXT:
            step: str | int = str(token.value)
        elif isinstance(token.value, int):
            step = token.value
        else:
            raise BadFilter(token.column, f'expected a name in quotes or a number after "[", found {token}')
        self._expect("]")
        return step

    def _literal(self, operand: Operand, token: Token) -> Scalar:
        value: Any = _CONSTANTS.get(token.text) if token.kind is Kind.WORD else token.value
        if value is None:
            hint = "; put text in quotes" if token.kind is Kind.WORD else ""
            raise BadFilter(token.column, f"expected a text, a number, true or false, found {token}{hint}")
        if isinstance(operand, Header) and not isinstance(value, str):
            raise BadFilter(token.column, f"a header is text: expected a text in quotes, found {token}")
        if isinstance(operand, Number):
            return self._number(operand, token, value)
        return value  # type: ignore[no-any-return]

    def _number(self, operand: Number, token: Token, value: Scalar) -> Scalar:
        if operand.name == "timestamp" and isinstance(value, str):
            try:
                return moment_ms(value, self._now_ms)
            except (ValueError, OverflowError):
                raise BadFilter(token.column, f"{token} is not {FORMS}") from None
        if isinstance(value, bool) or not isinstance(value, int | float):
            expected = FORMS if operand.name == "timestamp" else "a number"
            raise BadFilter(token.column, f"{operand.name} is a number: expected {expected}, found {token}")
        return value

    def _text(self, after: str) -> str:
        token = self._take()
        if token.kind is not Kind.TEXT or not token.value:
            raise BadFilter(token.column, f'expected a text in quotes after "{after}", found {token}')
        return str(token.value)

    def _like(self, operand: Document | Header) -> Like:
        column = self._next.column
        pattern = self._text("~")
        if len(pattern) > PATTERN_CHARS_MAX:
            raise BadFilter(column, f"a pattern of {len(pattern)} characters; at most {PATTERN_CHARS_MAX} are allowed")
        import re2

        options = re2.Options()
        options.log_errors = False
        options.max_mem = PATTERN_BYTES_MAX
        try:
            return Like(operand, pattern, re2.compile(pattern, options).search)
        except re2.error as broken:
            told = broken.args[0].decode(errors="replace") if isinstance(broken.args[0], bytes) else broken
            raise BadFilter(column, f"not a regular expression of RE2: {told}") from None
