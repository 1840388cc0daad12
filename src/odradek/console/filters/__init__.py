"""The language of message filters: text → tokens → a tree → one Python function. Nothing of it is evaluated as code.

    value.speed > 80 and key == "11"
    header["trace-id"] ~ "^a[0-9]+" or partition in (0, 1)
    timestamp > "2026-11-19T10:00" and value contains "late" and not value.driver.id is null
    "accident"                                               (the text anywhere in key, value or headers)

`parsed` checks a text completely: names, types, limits and regular expressions. An error names the column.
"""

from odradek.console.filters.compiling import UNREADABLE, Examined, Matches, compiled, reading
from odradek.console.filters.errors import BadFilter
from odradek.console.filters.parsing import operand, parsed
from odradek.console.filters.prefilter import needles
from odradek.console.filters.tree import Node, Operand

__all__ = ["UNREADABLE", "BadFilter", "Examined", "Matches", "Node", "Operand", "compiled", "needles", "operand"]
__all__ += ["parsed", "reading"]
