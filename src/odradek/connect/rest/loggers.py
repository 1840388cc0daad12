"""`/admin/loggers`: levels of this process's loggers, read and changed at run time."""

from __future__ import annotations

import logging
import time
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from odradek.connect.rest.shapes import json_object
from odradek.connect.service.requests import Refused

LEVELS = {
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG,
    "FATAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 10,
}
_NAMES = {
    logging.CRITICAL + 10: "OFF",
    logging.CRITICAL: "FATAL",
    logging.ERROR: "ERROR",
    logging.WARNING: "WARN",
    logging.INFO: "INFO",
    logging.DEBUG: "DEBUG",
}
ROOT = "root"
LOGGERS_MAX = 1_000

_changed_ms: dict[str, int] = {}


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _row(name: str) -> dict[str, object]:
    level = _logger(name).getEffectiveLevel()
    return {"level": _NAMES.get(level, "INFO"), "last_modified": _changed_ms.get(name)}


async def every(_: Request) -> Response:
    known = [ROOT, *sorted(name for name, logger in logging.root.manager.loggerDict.items() if _has_level(logger))]
    return JSONResponse({name: _row(name) for name in known[:LOGGERS_MAX]})


def _has_level(logger: object) -> bool:
    return isinstance(logger, logging.Logger) and logger.level != logging.NOTSET


async def one(request: Request) -> Response:
    name = unquote(request.path_params["logger"])
    if name != ROOT and name not in logging.root.manager.loggerDict:
        raise Refused(404, f"Logger {name} not found.")
    return JSONResponse(_row(name))


async def change(request: Request) -> Response:
    """Changes the logger and those below it, and lists the loggers whose level is new.

    `scope=cluster` answers 204 without a list, as in Kafka Connect.
    """
    name = unquote(request.path_params["logger"])
    level = (await json_object(request)).get("level")
    if level is None:
        raise Refused(400, "Desired 'level' parameter was not specified in request.")
    if str(level).upper() not in LEVELS:
        raise Refused(404, f"invalid log level '{level}'.")
    scope = request.query_params.get("scope", "worker")
    if scope not in ("worker", "cluster"):
        raise Refused(400, f"scope is {scope!r}, but it must be worker or cluster")
    below = [known for known in logging.root.manager.loggerDict if known.startswith(f"{name}.")]
    if name not in logging.root.manager.loggerDict and name != ROOT and len(_changed_ms) >= LOGGERS_MAX:
        raise Refused(400, f"the levels of {LOGGERS_MAX} loggers have been changed already")
    wanted = LEVELS[str(level).upper()]
    changed = sorted(each for each in {name, *below} if _logger(each).level != wanted)
    for each in changed:
        _logger(each).setLevel(wanted)
        _changed_ms[each] = int(time.time() * 1000)
    return Response(status_code=204) if scope == "cluster" else JSONResponse(changed)
