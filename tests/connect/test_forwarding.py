"""Requests to a service that stands by, whose active service has an address that cannot exist."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest
from starlette.requests import Request
from starlette.responses import Response

from odradek.connect.rest.forwarding import to_the_active
from odradek.connect.service.requests import Refused, Requests


async def here(_: Request) -> Response:
    raise AssertionError("this service is not active")


@pytest.mark.parametrize("active", ["a..b:8083", "connect:none", "connect 1:8083"])
def test_an_impossible_address_of_the_active_service_is_an_error_of_the_request(active: str) -> None:
    """Every client of the cluster can name an address in the group of the services."""
    requests = cast("Requests", SimpleNamespace(is_active=False, worker="me:1", active_worker=lambda: active))
    scope = {"type": "http", "method": "GET", "path": "/", "raw_path": b"/", "headers": [], "query_string": b""}

    async def body() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    with pytest.raises(Refused, match="IO Error trying to forward REST request to"):
        asyncio.run(to_the_active(requests, here)(Request({**scope, "server": ("me", 1), "scheme": "http"}, body)))
