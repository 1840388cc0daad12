"""The list of installed plug-ins, made in a process of its own.

To list a plug-in is to import it, with its libraries: all of them take about 100 MB, and seconds on a machine that has
not read them before. An import holds the interpreter's lock while it loads a library, so a service that imported them
for a list would answer nothing meanwhile, nor renew its leases. It imports only the plug-ins that its connectors use.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from importlib.metadata import entry_points

import msgspec

from odradek.connect.plugins import CONNECTORS, GROUPS, MissingLibrary, PluginKind, every_plugin

_log = logging.getLogger("odradek.connect")

ANSWER_S = 120.0


class Listed(msgspec.Struct, frozen=True):
    """A plug-in, without its class."""

    group: str
    name: str
    path: str
    kind: PluginKind
    version: str


class _Answer(msgspec.Struct, frozen=True):
    """`broken`: what is wrong with plug-ins that are installed but cannot be used."""

    listed: tuple[Listed, ...]
    broken: tuple[str, ...]


class Catalogue:
    """Any thread may ask. The list is made again when other plug-ins are installed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._installed: object = None
        self._listed: tuple[Listed, ...] = ()

    def prepare(self) -> None:
        """Makes the list now, on a thread, so that the first answer is fast."""
        threading.Thread(target=self.listed, name="connect-catalogue", daemon=True).start()

    def listed(self) -> tuple[Listed, ...]:
        """Waits for the list if it is being made."""
        with self._lock:
            every = entry_points()
            installed = [each for group in _groups() for each in every.select(group=group)]
            if installed != self._installed:
                answer = _made_elsewhere()
                for told in answer.broken:
                    _log.warning("%s; it is not in the list of plug-ins", told)
                self._listed, self._installed = answer.listed, installed
            return self._listed


def _groups() -> tuple[str, ...]:
    return (CONNECTORS, *GROUPS)


def _made_elsewhere() -> _Answer:
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    try:
        done = subprocess.run(  # noqa: S603 (this interpreter, this module)
            [sys.executable, "-m", __name__],
            env={**os.environ, **path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ANSWER_S,
            check=True,
        )
        return msgspec.json.decode(done.stdout, type=_Answer)
    except (OSError, subprocess.SubprocessError, msgspec.MsgspecError) as failed:
        told = getattr(failed, "stderr", None) or b""
        _log.warning("the plug-ins are listed in this process: %s %s", failed, told.decode(errors="replace").strip())
        return _made_here()


def _made_here() -> _Answer:
    listed: list[Listed] = []
    broken: list[str] = []
    for group in _groups():
        found, unusable = every_plugin(group)
        listed += [
            Listed(group=group, path=each.path, kind=each.kind, version=each.version, name=each.name) for each in found
        ]
        broken += [str(each) for each in unusable if not isinstance(each, MissingLibrary)]
    return _Answer(listed=tuple(listed), broken=tuple(broken))


def main() -> None:
    answer = os.dup(1)
    os.dup2(2, 1)  # a plug-in may print when it is imported
    with os.fdopen(answer, "wb") as out:
        out.write(msgspec.json.encode(_made_here()))


if __name__ == "__main__":
    main()
