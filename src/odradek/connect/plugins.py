"""Plug-ins: connectors, converters, transforms and predicates, found by entry points only."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from odradek.connect.interface import Sink, Source

PluginKind = Literal["source", "sink", "converter", "transformation", "predicate"]

GROUPS: dict[str, PluginKind] = {
    "odradek.converters": "converter",
    "odradek.transforms": "transformation",
    "odradek.predicates": "predicate",
}
CONNECTORS = "odradek.connectors"


class NoSuchPlugin(LookupError):
    """A config names a class that no installed plug-in has."""

    def __init__(self, name: str, group: str, known: Sequence[str]) -> None:
        near = get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"installed are: {', '.join(known) or 'none'}"
        super().__init__(f"no plug-in {name!r} in the entry points {group!r}; {hint}")


class BrokenPlugin(ImportError):
    """An entry point whose object cannot be imported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """`name` is the entry point's name, `path` the full name of its class. Configs may use either.

    A class may have other names in `aliases`, such as the name of the class of Kafka Connect that it stands for.
    """

    name: str
    path: str
    kind: PluginKind
    loaded: Any

    @property
    def version(self) -> str:
        return str(getattr(self.loaded, "version", "1.0"))


@cache
def plugins(group: str = CONNECTORS) -> tuple[Plugin, ...]:
    """All plug-ins of a group. One that cannot be imported does not hide the others."""
    found = []
    for entry in sorted(entry_points(group=group), key=lambda entry: entry.name):
        try:
            found.append(_plugin(entry, group))
        except BrokenPlugin:
            continue
    return tuple(found)


def plugin(name: str, group: str = CONNECTORS) -> Plugin:
    """The plug-in with this name, full class name, last part of it, or alias. Raises NoSuchPlugin."""
    entries = entry_points(group=group)
    for entry in entries:
        path = entry.value.replace(":", ".")
        if name in (entry.name, path, path.rpartition(".")[2]):
            return _plugin(entry, group)
    for each in plugins(group):
        if name in getattr(each.loaded, "aliases", ()):
            return each
    raise NoSuchPlugin(name, group, sorted(entry.name for entry in entries))


def any_plugin(name: str) -> Plugin:
    """A plug-in of any kind. The error names connectors: most requests are about them."""
    for group in GROUPS:
        with suppress(NoSuchPlugin):
            return plugin(name, group)
    return plugin(name)


def _plugin(entry: EntryPoint, group: str) -> Plugin:
    try:
        loaded = entry.load()
    except (ImportError, AttributeError) as failed:
        raise BrokenPlugin(f"the plug-in {entry.name!r} ({entry.value}) cannot be imported: {failed}") from failed
    return Plugin(name=entry.name, path=entry.value.replace(":", "."), kind=_kind(entry, group, loaded), loaded=loaded)


def _kind(entry: EntryPoint, group: str, loaded: object) -> PluginKind:
    if group in GROUPS:
        return GROUPS[group]
    if isinstance(loaded, type) and issubclass(loaded, Source):
        return "source"
    if isinstance(loaded, type) and issubclass(loaded, Sink):
        return "sink"
    raise BrokenPlugin(f"the plug-in {entry.name!r} ({entry.value}) is neither a Source nor a Sink")
