"""Reads the text of PostgreSQL's arrays: `{1,NULL,"a, b"}`, nested, and with bounds such as `[0:1]={…}`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

TOKEN = re.compile(r'[{},]|"((?:[^"\\]|\\.)*)"|([^{},"]+)', re.DOTALL)
ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def elements(text: str, decode: Callable[[bytes], Any]) -> list[Any]:
    text = text[text.index("=") + 1 :] if text.startswith("[") else text
    open_lists: list[list[Any]] = [[]]
    for found in TOKEN.finditer(text):
        quoted, plain = found.groups()
        if quoted is not None:
            open_lists[-1].append(decode(ESCAPED.sub(r"\1", quoted).encode()))
        elif plain is not None:
            open_lists[-1].append(None if plain == "NULL" else decode(plain.encode()))
        elif found[0] == "{":
            open_lists.append([])
        elif found[0] == "}":
            done = open_lists.pop()
            open_lists[-1].append(done)
    whole: list[Any] = open_lists[0][0]
    return whole
