"""JSON pointers (RFC 6901). Both the empty pointer and `/` are the whole value."""

from __future__ import annotations

from typing import Any


class Missing(ValueError):
    """A pointer to something that a value does not have."""


def pointed(value: Any, pointer: str) -> Any:  # noqa: ANN401 (any JSON)
    found = value
    for part in pointer.removeprefix("/").split("/") if pointer not in ("", "/") else []:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        else:
            has = ", ".join(sorted(found)[:20]) if isinstance(found, dict) else type(found).__name__
            raise Missing(f"the pointer {pointer!r} finds no {name!r} in the reply, which has: {has}")
    return found
