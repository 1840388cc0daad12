"""References in configs: `${env:NAME}`, `${file:PATH}` and `${file:PATH:KEY}`, replaced when a connector starts.

Configs are stored and shown with the reference, so a password is in no topic and in no response.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

REFERENCE = re.compile(r"\$\{(env|file):([^}:]+)(?::([^}]+))?\}")
FILE_BYTES_MAX = 1 << 20


class Unresolved(ValueError):
    """A reference whose variable, file or key does not exist."""


def resolved(config: Mapping[str, str]) -> dict[str, str]:
    """The config with all references replaced. Raises Unresolved, which names the option and never the value."""
    return {name: _resolved(name, text) for name, text in config.items()}


def _resolved(name: str, text: str) -> str:
    return REFERENCE.sub(lambda found: _value(name, found), text)


def _value(name: str, found: re.Match[str]) -> str:
    provider, where, key = found[1], found[2], found[3]
    if provider == "env":
        value = os.environ.get(where if key is None else key)
        if value is None:
            raise Unresolved(f'"{name}" refers to the environment variable {key or where}, which is not set')
        return value
    path = Path(where)
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise Unresolved(f'"{name}" refers to {path}, which is larger than {FILE_BYTES_MAX} bytes')
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as failed:
        raise Unresolved(f'"{name}" refers to the file {path}: {failed}') from None
    if key is None:
        return text.removesuffix("\n")
    properties = dict(_pairs(text))
    if key not in properties:
        raise Unresolved(f'"{name}" refers to {key!r} in {path}, which has no such key')
    return properties[key]


def _pairs(text: str) -> list[tuple[str, str]]:
    """The lines `key=value` of a properties file."""
    lines = [line.strip() for line in text.splitlines()]
    said = [re.split(r"\s*[=:]\s*", line, maxsplit=1) for line in lines if line and line[0] not in "#!"]
    return [(pair[0], pair[1] if len(pair) > 1 else "") for pair in said]
