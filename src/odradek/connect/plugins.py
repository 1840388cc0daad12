"""Plug-ins: connectors, converters, transforms and predicates, found by entry points only."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from odradek.base.extras import extra_of
from odradek.connect.interface import Sink, Source
from odradek.connect.kafka_classes import PLUGIN_OF
from odradek.connect.options import definitions

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
    """An entry point whose object cannot be imported, or is no plug-in."""


class MissingLibrary(BrokenPlugin):
    """A plug-in of Odradek whose libraries an extra installs. It is not broken: it was not asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """`name` is the entry point's name, `path` the full name of its class. Configs may use either."""

    name: str
    path: str
    kind: PluginKind
    loaded: Any

    @property
    def version(self) -> str:
        return str(getattr(self.loaded, "version", "1.0"))


def every_plugin(group: str) -> tuple[list[Plugin], list[BrokenPlugin]]:
    """All plug-ins of a group, and what is wrong with those that cannot be used: they do not hide the others."""
    found: dict[str, Plugin] = {}
    broken: list[BrokenPlugin] = []
    for entry in sorted(entry_points(group=group), key=lambda entry: entry.name):
        try:
            found.setdefault(_path(entry), _plugin(entry, group))  # a class may have several names
        except BrokenPlugin as wrong:
            broken.append(wrong)
    return list(found.values()), broken


def plugin(name: str, group: str = CONNECTORS) -> Plugin:
    """The plug-in with this name, full class name, last part of it, or name of Kafka's class. Imports it alone.

    Raises NoSuchPlugin and BrokenPlugin.
    """
    entries = entry_points(group=group)
    for same in (
        [entry for entry in entries if _path(entry) == name],
        [entry for entry in entries if entry.name == name],
        [entry for entry in entries if entry.name == PLUGIN_OF.get(name)],
        [entry for entry in entries if _path(entry).rpartition(".")[2] == name],
    ):
        if same:
            return _plugin(_only(name, same), group)
    raise NoSuchPlugin(name, group, sorted({entry.name for entry in entries}))


def _only(name: str, same: Sequence[EntryPoint]) -> EntryPoint:
    """Two distributions may have a plug-in of the same name. A config must not get whichever is first."""
    paths = sorted(set(map(_path, same)))
    if len(paths) > 1:
        told = " and ".join(paths)
        raise BrokenPlugin(f"the name {name!r} stands for {told}; use the full name of the class instead")
    return same[0]


def any_plugin(name: str) -> Plugin:
    """A plug-in of any kind. The error names connectors: most requests are about them."""
    for group in GROUPS:
        with suppress(NoSuchPlugin):
            return plugin(name, group)
    return plugin(name)


def _path(entry: EntryPoint) -> str:
    return entry.value.replace(":", ".")


def _plugin(entry: EntryPoint, group: str) -> Plugin:
    who = f"the plug-in {entry.name!r} ({entry.value})"
    try:
        loaded = entry.load()
    except (ImportError, AttributeError) as failed:
        if isinstance(failed, ImportError) and entry.value.startswith("odradek.") and (extra := extra_of(failed)):
            raise MissingLibrary(
                f"{who} needs {extra[0]}, which is not installed. Install it with: pip install 'odradek[{extra[1]}]'"
            ) from failed
        raise BrokenPlugin(f"{who} cannot be imported: {failed}") from failed
    except Exception as failed:  # the module of a plug-in may raise anything
        raise BrokenPlugin(f"{who} cannot be imported: {type(failed).__name__}: {failed}") from failed
    kind = _kind(loaded, group)
    if kind is None:
        raise BrokenPlugin(
            f"{who} is neither a Source nor a Sink; decorate a function with @source(Config) or @sink(Config)"
        )
    if wrong := _missing_methods(loaded) or _wrong_options(loaded):
        raise BrokenPlugin(f"{who} {wrong}")
    return Plugin(name=entry.name, path=_path(entry), kind=kind, loaded=loaded)


def _kind(loaded: object, group: str) -> PluginKind | None:
    if group in GROUPS:
        return GROUPS[group]
    if isinstance(loaded, type) and issubclass(loaded, Source):
        return "source"
    if isinstance(loaded, type) and issubclass(loaded, Sink):
        return "sink"
    return None


def _missing_methods(loaded: object) -> str | None:
    missing: Iterable[str] = getattr(loaded, "__abstractmethods__", ())
    return f"is incomplete: it has no method {' and no method '.join(sorted(missing))}" if missing else None


def _wrong_options(loaded: object) -> str | None:
    config = getattr(loaded, "Config", None)
    if not isinstance(config, type) or not dataclasses.is_dataclass(config):
        return "has no options: set its attribute Config to a dataclass"
    try:
        definitions(config)
    except (TypeError, NameError) as wrong:
        return f"cannot be used: {wrong}"
    except Exception as wrong:  # noqa: BLE001 (evaluating an annotation may raise anything)
        return f"cannot be used: {type(wrong).__name__}: {wrong}"
    return None
