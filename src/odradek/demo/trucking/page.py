"""The live page: static files, the map's lines, a stream of events, and the buttons that break things."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from odradek.demo.trucking import geography
from odradek.demo.trucking.page_state import PageState
from odradek.web.application import application
from odradek.web.errors import HttpError
from odradek.web.events import Broadcast, Event
from odradek.web.files import PackageFiles
from odradek.web.server import HttpServer

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Buttons:
    """What a visitor of the page can do to the demo."""

    kill: Mapping[str, Callable[[], None]]  # by the part's name
    change_driver: Callable[[int], None]


class Page:
    """The state that all threads tell to, and the server that tells it on."""

    def __init__(self, state: PageState, buttons: Buttons, port: int) -> None:
        self._state = state
        self._buttons = buttons
        self._lock = threading.Lock()
        self._broadcast = Broadcast(greeting=self._greeting)
        routes = [
            Route("/map.json", self._map),
            Route("/events", self._events),
            Route("/kill/{part}", self._kill, methods=["POST"]),
            Route("/drivers/{driver:int}/change", self._change_driver, methods=["POST"]),
            Mount("/", PackageFiles("odradek.demo.trucking")),
        ]
        self.server = HttpServer(application(routes), port=port)

    def tell(self, news: Callable[[PageState], None]) -> None:
        with self._lock:
            news(self._state)

    def read(self, what: Callable[[PageState], Answer]) -> Answer:
        with self._lock:
            return what(self._state)

    def publish(self) -> None:
        with self._lock:
            changes = self._state.changes()
        self._broadcast.publish(changes)

    def _greeting(self) -> list[Event]:
        with self._lock:
            return [Event(data=self._state.everything())]

    async def _map(self, _request: Request) -> Response:
        return JSONResponse(geography.as_json())

    async def _events(self, _request: Request) -> Response:
        return self._broadcast.response()

    def _kill(self, request: Request) -> Response:
        """In a thread of the server's pool: a kill waits until the process is gone."""
        part = request.path_params["part"]
        if part not in self._buttons.kill:
            raise HttpError(404, f"no part is called {part!r}", f"there are {', '.join(self._buttons.kill)}")
        self._buttons.kill[part]()
        return Response(status_code=204)

    def _change_driver(self, request: Request) -> Response:
        try:
            self._buttons.change_driver(request.path_params["driver"])
        except KeyError:
            raise HttpError(404, "no such driver", "the page lists those there are") from None
        return Response(status_code=204)
