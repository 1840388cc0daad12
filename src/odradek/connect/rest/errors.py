"""Errors in Kafka Connect's shape: `{"error_code": 404, "message": …}`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from odradek.client.records import ClientError
from odradek.connect.service.requests import Refused
from odradek.connect.storage.topic_log import StorageFailed
from odradek.web.application import Tell
from odradek.web.errors import HttpError

_log = logging.getLogger("odradek.connect")


def error(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error_code": status, "message": message}, status)


def _refused(request: Request, failed: Exception) -> Response:
    match failed:
        case Refused():
            return error(failed.status, failed.message)
        case HttpError():
            return error(failed.status, f"{failed.what}: {failed.why}")
        case HTTPException():
            response = error(failed.status_code, f"HTTP {failed.status_code} {HTTPStatus(failed.status_code).phrase}")
            response.headers.update(failed.headers or {})
            return response
        case StorageFailed() | ClientError():
            return error(500, str(failed))
        case _:
            _log.error("%s %s failed", request.method, request.url.path, exc_info=failed)
            return error(500, f"{type(failed).__name__}; the service's log has more")


ERRORS: Mapping[type[Exception], Tell] = dict.fromkeys(
    (Refused, HttpError, HTTPException, StorageFailed, ClientError, Exception), _refused
)
