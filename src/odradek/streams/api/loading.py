"""From `app.py` or `app.py:name` to the App in it, or an error that names the user's line."""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType

from odradek.pipeline.errors import StreamsError
from odradek.spark.session import NoSpark
from odradek.streams.api.app import App


class CannotLoad(StreamsError):
    """The file does not run, or has no single App."""


class NoSuchFile(CannotLoad):
    """Also one that is there, and no Python."""


def load_app(target: str) -> App:
    file, _, name = target.partition(".py:")
    path = Path(file if file.endswith(".py") else f"{file}.py")
    if not path.is_file():
        raise NoSuchFile(f"{file} is no Python file" if Path(file).is_file() else f"there is no file {path}")
    apps = {name: value for name, value in vars(_module(path)).items() if isinstance(value, App)}
    return _chosen(apps, path, name)


def pickle_by_value(app: App) -> None:
    """Functions of the user's file travel to Spark's workers as code: no worker could import it by its name."""
    from pyspark import cloudpickle

    files = {node.origin.file for node in app.graph.nodes}
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) in files and module.__name__.startswith(_PREFIX):
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


_PREFIX = "odradek_app_"


def _module(path: Path) -> ModuleType:
    path = path.resolve()
    # Modules beside it can be imported, here and by the workers on this machine.
    sys.path.insert(0, str(path.parent))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(path.parent), os.environ.get("PYTHONPATH")]))
    name = f"{_PREFIX}{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CannotLoad(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pydantic look their annotations up there
    try:
        spec.loader.exec_module(module)
    except StreamsError:
        raise
    except SyntaxError as wrong:
        raise CannotLoad(_told(f"{wrong.filename}:{wrong.lineno}", wrong.text, f"SyntaxError: {wrong.msg}")) from wrong
    except Exception as wrong:  # whatever the user's code raises
        raise CannotLoad(_told_at(path, wrong, _words(wrong))) from wrong
    return module


def _words(wrong: Exception) -> str:
    if isinstance(wrong, ModuleNotFoundError) and (wrong.name or "").partition(".")[0] == "pyspark":
        return str(NoSpark())
    return f"{type(wrong).__name__}: {wrong}"


def _told_at(path: Path, wrong: Exception, what: str) -> str:
    own = [frame for frame in traceback.extract_tb(wrong.__traceback__) if frame.filename == str(path)]
    return _told(f"{path}:{own[-1].lineno}", own[-1].line, what) if own else _told(str(path), None, what)


def _told(place: str, line: str | None, what: str) -> str:
    return f"{place}\n    {line.strip()}\n{what}" if line else f"{place}: {what}"


def _chosen(apps: dict[str, App], path: Path, name: str) -> App:
    if name:
        if name not in apps:
            there_are = ", ".join(apps) or "none"
            raise CannotLoad(f"{path} has no App called {name!r}; there are: {there_are}")
        return apps[name]
    if not apps:
        raise CannotLoad(f'{path} has no App; one stands at the top level of the file: app = App("name")')
    first, *others = {id(app): name for name, app in reversed(apps.items())}.values()
    if others:
        choices = " or ".join(f"{path}:{name}" for name in apps)
        raise CannotLoad(f"{path} has {len(others) + 1} Apps; say which: {choices}")
    return apps[first]
