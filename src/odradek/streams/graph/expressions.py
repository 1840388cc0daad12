"""Column expressions that are written before there is a Spark session: `col("speed") > 80`, `F.count("*")`.

An Expression records what is called on it, prints as it was written, and becomes a PySpark Column by `resolve()`.
`F` has every function of `pyspark.sql.functions`; an Expression has every method of a PySpark Column.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn, cast

from odradek.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column

# what is not about one row's columns cannot be recorded as an expression
_UDF_MAKERS = ("udf", "pandas_udf", "arrow_udf")
_OF_A_COLUMN_NAMES = "sum avg mean max min count first last collect_list collect_set col column"
_OF_A_COLUMN = frozenset(_OF_A_COLUMN_NAMES.split())
"""Functions whose first argument is a column when it is text. There are more, and Spark knows them."""
_NO_COLUMN_NAMES = """
    true false null current_date current_time current_timestamp localtimestamp current_user session_user user
    current_catalog current_database current_schema
"""
_NO_COLUMNS = frozenset(_NO_COLUMN_NAMES.split())
"""SQL that looks like the name of a column."""
_COLUMN_NAME = re.compile(r"[A-Za-z_]\w*(\.\w+)*")


_resolved_step: ContextVar[str | None] = ContextVar("step", default=None)


@contextmanager
def resolving(step: str) -> Iterator[None]:
    """What is resolved inside belongs to this step: `step_in` finds it in what Spark says of a value later."""
    token = _resolved_step.set(step)
    try:
        yield
    finally:
        _resolved_step.reset(token)


def step_in(call_site: str) -> str | None:
    """The step of a call site, `file:line` as Spark has it."""
    found = re.match(r"<step (.+)>:\d+", call_site)
    return found[1] if found else None


def _called_from(step: str, build: Callable[[], Column]) -> Callable[[], Column]:
    """The same function in a file of another name: for each expression Spark keeps the file that it was called from.

    The user's line is not on the stack here, since expressions are built when all steps have been written.
    """
    made = cast("FunctionType", build)
    code = made.__code__.replace(co_filename=f"<step {step}>")
    return FunctionType(code, made.__globals__, made.__name__, made.__defaults__, made.__closure__)


class Named(str):
    """Text that names a column, in an expression where other text may not."""

    __slots__ = ()


class Expression:
    """A column to be: its text, how to build it once Spark runs, and the columns that it is made of."""

    __slots__ = ("_build", "_columns", "_text")
    __hash__ = None  # type: ignore[assignment]  # == builds an expression, so no set or dict may compare them

    def __init__(self, text: str, build: Callable[[], Column], of: Iterable[object] = ()) -> None:
        """`of`: what it is made of. Columns that are named in a way which is not seen here are left to Spark."""
        self._text = text
        self._build = build
        self._columns = frozenset(name for part in of for name in _named_in(part))

    def resolve(self) -> Column:
        step = _resolved_step.get()
        return self._build() if step is None else _called_from(step, self._build)()

    def __repr__(self) -> str:
        return self._text

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 a method of Column, or a field of a struct
        from pyspark.sql import Column

        if name.startswith("__"):
            raise AttributeError(name)
        if hasattr(Column, name):
            return functools.partial(_method, self, name)
        return Expression(f"{self._text}.{name}", lambda: self.resolve().getField(name), [self])

    def __getitem__(self, key: object) -> Expression:
        return Expression(f"{self._text}[{shown(key)}]", lambda: self.resolve()[resolved(key)], [self, key])

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise PipelineError(
            f"there is no method `{self._text}`{_similar_verb(self._text)}",
            why="attributes of a stream that are not methods are its columns, and a column is not a function",
            instead='a method of the stream; a column whose name is also a method\'s is written stream["name"]',
        )

    def __bool__(self) -> NoReturn:
        raise PipelineError(
            f"`{self._text}` is a column: it is neither true nor false before there are rows",
            why="Python's `and`, `or`, `not`, `in` and chained comparisons ask for one truth value",
            instead="(a > 1) & (b < 2), |, ~, column.isin(...), column.between(low, high)",
        )

    def __iter__(self) -> NoReturn:
        raise TypeError(f"`{self._text}` is a column and cannot be iterated; F.explode makes rows of an array")

    def __invert__(self) -> Expression:
        return Expression(f"~({self._text})", lambda: ~self.resolve(), [self])

    def __neg__(self) -> Expression:
        return Expression(f"-({self._text})", lambda: -self.resolve(), [self])

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return _binary("==", "__eq__", self, other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return _binary("!=", "__ne__", self, other)

    def __lt__(self, other: object) -> Expression:
        return _binary("<", "__lt__", self, other)

    def __le__(self, other: object) -> Expression:
        return _binary("<=", "__le__", self, other)

    def __gt__(self, other: object) -> Expression:
        return _binary(">", "__gt__", self, other)

    def __ge__(self, other: object) -> Expression:
        return _binary(">=", "__ge__", self, other)

    def __and__(self, other: object) -> Expression:
        return _binary("&", "__and__", self, other)

    def __or__(self, other: object) -> Expression:
        return _binary("|", "__or__", self, other)

    def __add__(self, other: object) -> Expression:
        return _binary("+", "__add__", self, other)

    def __sub__(self, other: object) -> Expression:
        return _binary("-", "__sub__", self, other)

    def __mul__(self, other: object) -> Expression:
        return _binary("*", "__mul__", self, other)

    def __truediv__(self, other: object) -> Expression:
        return _binary("/", "__truediv__", self, other)

    def __mod__(self, other: object) -> Expression:
        return _binary("%", "__mod__", self, other)

    def __pow__(self, other: object) -> Expression:
        return _binary("**", "__pow__", self, other)

    def __rand__(self, other: object) -> Expression:
        return _binary("&", "__and__", lit(other), self)

    def __ror__(self, other: object) -> Expression:
        return _binary("|", "__or__", lit(other), self)

    def __radd__(self, other: object) -> Expression:
        return _binary("+", "__add__", lit(other), self)

    def __rsub__(self, other: object) -> Expression:
        return _binary("-", "__sub__", lit(other), self)

    def __rmul__(self, other: object) -> Expression:
        return _binary("*", "__mul__", lit(other), self)

    def __rtruediv__(self, other: object) -> Expression:
        return _binary("/", "__truediv__", lit(other), self)

    def __rmod__(self, other: object) -> Expression:
        return _binary("%", "__mod__", lit(other), self)


# What is accepted wherever a column is expected: an expression, a PySpark Column, SQL text, or a plain value.
ColumnLike = Any


class Functions:
    """`F`: the functions of `pyspark.sql.functions`, recorded instead of called."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        from pyspark.sql import functions

        if name.startswith("__"):
            raise AttributeError(name)
        if name in _UDF_MAKERS:
            return functools.partial(_user_function, name)
        if not callable(getattr(functions, name, None)):
            close = difflib.get_close_matches(name, dir(functions), n=1)
            hint = f"; did you mean F.{close[0]}?" if close else ""
            raise AttributeError(f"Spark has no function {name!r}{hint}")  # noqa: TRY004 it is an attribute
        return functools.partial(_function, name)

    def __dir__(self) -> list[str]:
        from pyspark.sql import functions

        return [name for name in dir(functions) if not name.startswith("_")]


F = Functions()


def col(name: str) -> Expression:
    def build() -> Column:
        from pyspark.sql import functions

        return functions.col(name)

    return Expression(name, build, [Named(name)])


def lit(value: object) -> Expression:
    if isinstance(value, Expression):
        return value

    def build() -> Column:
        from pyspark.sql import functions

        return functions.lit(value)

    return Expression(shown(value), build)


def sql(text: str) -> Expression:
    """An expression in SQL: `sql("speed * 1.6")`."""

    def build() -> Column:
        from pyspark.sql import functions

        return functions.expr(text)

    return Expression(text, build, [Named(text)])


def header(name: str, column: str = "headers") -> Expression:
    """The text of a record's header, of the last one where several have this name; null where there is none."""

    def build() -> Column:
        from pyspark.sql import functions

        named = functions.filter(column, lambda one: one["key"] == name)
        return functions.try_element_at(named, functions.lit(-1))["value"].cast("string")

    text = f"header({name!r})" if column == "headers" else f"header({name!r}, {column!r})"
    return Expression(text, build, [Named(column)])


def resolved(value: Any) -> Any:  # noqa: ANN401 arguments of any function of Spark
    """The value with every expression inside it turned into a Column."""
    if isinstance(value, Expression):
        return value.resolve()
    if isinstance(value, list | tuple):
        return type(value)(resolved(item) for item in value)
    if isinstance(value, Mapping):
        return {key: resolved(item) for key, item in value.items()}
    if callable(value) and not isinstance(value, type):
        # F.transform(array, lambda x: F.upper(x)): Spark calls it with Columns and wants one back
        return functools.wraps(value)(lambda *columns: resolved(value(*columns)))
    return value


def column_of(value: ColumnLike) -> Column:
    """Text is SQL, expressions and Columns are themselves, anything else is a literal."""
    from pyspark.sql import Column

    if isinstance(value, str):
        return sql(value).resolve()
    return value if isinstance(value, Column) else lit(value).resolve()


def aliased(value: ColumnLike, name: str) -> Expression:
    text = value if isinstance(value, str) else shown(value)
    of = Named(value) if isinstance(value, str) else value
    return Expression(f"{text} as {name}", lambda: column_of(value).alias(name), [of])


def named_columns(value: ColumnLike) -> frozenset[str]:
    """The columns that an expression certainly needs: text is SQL, and is one of them if it is a mere name."""
    return frozenset(_named_in(Named(value) if isinstance(value, str) else value))


def _named_in(part: object) -> frozenset[str]:
    if isinstance(part, Expression):
        return part._columns  # noqa: SLF001 expressions have columns' methods for attributes
    if isinstance(part, Named):
        is_column = _COLUMN_NAME.fullmatch(part) is not None and part.lower() not in _NO_COLUMNS
        return frozenset({str(part)}) if is_column else frozenset()
    if isinstance(part, list | tuple):
        return frozenset(name for one in part for name in _named_in(one))
    return frozenset()


def shown(value: object) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(shown, value)) + "]"
    if isinstance(value, set | frozenset):  # in an order that the next process finds too
        return "{" + ", ".join(sorted(map(shown, value))) + "}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{shown(key)}: {shown(one)}" for key, one in value.items()) + "}"
    if callable(value) and not isinstance(value, Expression):
        return str(getattr(value, "__name__", value))
    text = repr(value)
    return text[len("Column<'") : -len("'>")] if text.startswith("Column<'") else text


def _binary(sign: str, method: str, left: Expression, right: object) -> Expression:
    return Expression(
        f"({left!r} {sign} {shown(right)})",
        lambda: getattr(left.resolve(), method)(resolved(right)),
        [left, right],
    )


def _method(column: Expression, name: str, *args: object, **kwargs: object) -> Expression:
    return Expression(
        f"{column!r}.{name}({_arguments(args, kwargs)})",
        lambda: getattr(column.resolve(), name)(*resolved(args), **resolved(kwargs)),
        [column, *args, *kwargs.values()],
    )


def _function(name: str, *args: object, **kwargs: object) -> Any:  # noqa: ANN401 F.when(...) has methods of its own
    def build() -> Column:
        from pyspark.sql import functions

        return getattr(functions, name)(*resolved(args), **resolved(kwargs))  # type: ignore[no-any-return]

    of = [Named(arg) if isinstance(arg, str) and name in _OF_A_COLUMN and not n else arg for n, arg in enumerate(args)]
    return Expression(f"{name}({_arguments(args, kwargs, quoted=False)})", build, [*of, *kwargs.values()])


def _user_function(maker: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:  # noqa: ANN401
    """`F.udf(function, "int")` or `@F.udf("int")`: what it returns is called with columns."""
    if args and callable(args[0]) and not isinstance(args[0], type):
        function = args[0]

        def call(*columns: object) -> Expression:
            def build() -> Column:
                from pyspark.sql import functions

                return getattr(functions, maker)(*args, **kwargs)(*resolved(columns))  # type: ignore[no-any-return]

            of = [Named(one) if isinstance(one, str) else one for one in columns]
            return Expression(f"{function.__name__}({_arguments(columns, {}, quoted=False)})", build, of)

        return functools.wraps(function)(call)
    return lambda function: _user_function(maker, function, *args, **kwargs)


def _arguments(args: tuple[object, ...], kwargs: Mapping[str, object], *, quoted: bool = True) -> str:
    plain = [arg if isinstance(arg, str) and not quoted else shown(arg) for arg in args]
    return ", ".join([*plain, *(f"{name}={shown(value)}" for name, value in kwargs.items())])


_verbs: list[str] = []


def suggest_verbs(verbs: Iterable[str]) -> None:
    """The methods of a stream, told by it: `stream.fliter(...)` calls a column, and the error says what was meant."""
    _verbs[:] = verbs


def _similar_verb(name: str) -> str:
    if name in _verbs:
        return "; streams have one, and a table becomes a stream by .to_stream()"
    close = difflib.get_close_matches(name, _verbs, n=1)
    return f"; did you mean {close[0]}?" if close else ""
