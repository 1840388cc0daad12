"""What all pages share: the page's declaration, and what a page asks the console for.

A page is a module in `pages/` with a `PAGE`, and a template. `pages/__init__.py` lists them in the order of the
navigation. A page whose feature the cluster lacks is hidden.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute

from odradek.client.admin import Admin
from odradek.console.collecting.cluster import Cluster
from odradek.console.collecting.collector import Collector
from odradek.console.collecting.node_figures import NodeReader
from odradek.console.collecting.parts import Part
from odradek.console.collecting.snapshot import Snapshot
from odradek.console.connectors.reading import Reader
from odradek.console.rendering import Templates
from odradek.console.security import Guard, is_own_path
from odradek.console.settings import ConsoleSettings
from odradek.console.verdict import Verdict, verdict
from odradek.watch.watched_cluster import WatchedCluster, now_ms
from odradek.web.errors import HttpError

NOTICES_MAX = 200
# A page that waits longer for a broker shows the error instead.
ADMIN_S = 8.0
ERROR = 400
NOTICE_COOKIE, THEME_COOKIE, REFRESH_COOKIE = "odradek-notice", "odradek-theme", "odradek-refresh"
REFRESH_HEADER = "x-refresh"  # of static/console.js
THEMES = ("auto", "light", "dark")
REFRESHES = ("live", "10", "off")


def always(_snapshot: Snapshot) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    name: str
    title: str
    path: str
    icon: str  # a symbol in templates/icons.svg
    key: str  # after "g" on the keyboard
    section: str  # heading in the navigation
    routes: Callable[[Console], Sequence[BaseRoute]]
    is_there: Callable[[Snapshot], bool] = always
    # What the collector reads for this page: see collecting/parts.py.
    parts: Callable[[Console], Sequence[Part]] = lambda _: ()
    # A number beside the title in the navigation.
    count: Callable[[Snapshot], int | None] = lambda _: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Shown once, on the page after an action."""

    level: str  # good or bad
    text: str


class Refused(Exception):
    """An action that was not carried out: `what` failed, and `why`. Shown on the page that it came from."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what}: {why}")
        self.what, self.why = what, why


class Console:
    """One cluster, and everything that pages use. Endpoints run on threads: they may block."""

    def __init__(
        self,
        settings: ConsoleSettings,
        *,
        cluster: Cluster,
        watched: WatchedCluster,
        collector: Collector,
        nodes: NodeReader,
        pages: Sequence[Page],
    ) -> None:
        self.settings = settings
        self.cluster = cluster
        self.watched = watched
        self.collector = collector
        self.nodes = nodes
        self.connectors = Reader(settings.connect, collector.history)
        self.guard = Guard(settings)
        self._pages = pages
        self._templates = Templates(self)
        self._notices: OrderedDict[str, Notice] = OrderedDict()
        self._lock = threading.Lock()
        self._admin: Admin | None = None
        self._known: tuple[Snapshot, Verdict] | None = None
        for page in pages:
            collector.add(page.parts(self))

    @property
    def snapshot(self) -> Snapshot:
        return self.collector.snapshot

    def verdict(self) -> Verdict:
        """On the last snapshot: made once, and shown by all pages."""
        snapshot, known = self.snapshot, self._known
        if known is None or known[0] is not snapshot:
            known = self._known = (snapshot, verdict(snapshot))
        return known[1]

    @property
    def admin(self) -> Admin:
        """librdkafka's admin calls."""
        with self._lock:
            if self._admin is None:
                self._admin = Admin(self.settings.bootstrap, timeout_s=ADMIN_S)
            return self._admin

    def trend(self, figure: str) -> list[float]:
        """The last values of a figure of one topic, group or broker, as the collector names it."""
        return self.collector.history.values(figure)

    # Addresses

    def to(self, path: str, *names: object, **query: object) -> str:
        """The address of a page: `to("/groups", name, tab="members")`. Parameters that are None or "" are left out."""
        left = {key.rstrip("_"): value for key, value in query.items() if value not in (None, "")}
        return f"{self.settings.prefix}{path_to(path, *names)}" + (f"?{urlencode(left, doseq=True)}" if left else "")

    # Answers

    def page(
        self,
        request: Request,
        template: str,
        *,
        title: str,
        status: int = 200,
        **model: Any,  # noqa: ANN401 - what the template takes
    ) -> Response:
        """The page as HTML, with the frame around it."""
        session = self.guard.session(request)
        # A page that refreshes itself while the next page is made must not take the notice from it.
        notice = None if REFRESH_HEADER in request.headers else self._taken(request.cookies.get(NOTICE_COOKIE))
        theme = _one_of(THEMES, request.cookies.get(THEME_COOKIE))
        snapshot = self.snapshot
        text = self._templates.render(
            template,
            title=title,
            snapshot=snapshot,
            now_ms=now_ms(),
            verdict=self.verdict(),
            nav=self._navigation(snapshot, request),
            here=request.url.path.removeprefix(self.settings.prefix) or "/",
            query=dict(request.query_params),
            address=_address(request),
            csrf=self.guard.token(session),
            read_only=self.settings.read_only,
            signed_in=self.settings.password is not None and self.guard.is_signed_in(request),
            notice=notice,
            theme=theme,
            # An error stays on the screen, and is not asked for again and again.
            refresh="off" if status >= ERROR else _one_of(REFRESHES, request.cookies.get(REFRESH_COOKIE)),
            **model,
        )
        response = HTMLResponse(text, status, {"cache-control": "no-store"})
        if notice is not None:
            response.delete_cookie(NOTICE_COOKIE, path=self.settings.prefix or "/")
        self.guard.keep(session, request, response)
        return response

    def done(self, text: str, path: str) -> Response:
        """After an action: goes to this address of `to`, which shows the text."""
        return self._told(Notice(level="good", text=text), path)

    def not_done(self, refused: Refused | Exception, path: str) -> Response:
        return self._told(Notice(level="bad", text=str(refused)), path)

    def _told(self, notice: Notice, path: str) -> Response:
        number = secrets.token_urlsafe(12)
        with self._lock:
            self._notices[number] = notice
            while len(self._notices) > NOTICES_MAX:
                self._notices.popitem(last=False)
        response = RedirectResponse(path, 303)
        response.set_cookie(
            NOTICE_COOKIE, number, max_age=60, path=self.settings.prefix or "/", httponly=True, samesite="strict"
        )
        return response

    def _taken(self, number: str | None) -> Notice | None:
        with self._lock:
            return self._notices.pop(number, None) if number else None

    async def form(self, request: Request) -> dict[str, str]:
        """The fields of a form that changes something. Raises HttpError if the request may not change anything."""
        return await self.guard.form(request)

    def back(self, form: dict[str, str], default: str = "/") -> str:
        """Where a form says it came from; only addresses of this console count."""
        there = form.get("back", "")
        return there if is_own_path(there, self.settings.prefix) else self.to(default)

    def _navigation(self, snapshot: Snapshot, request: Request) -> list[dict[str, Any]]:
        here = request.url.path.removeprefix(self.settings.prefix) or "/"
        return [
            {
                "page": page,
                "href": self.to(page.path),
                "count": page.count(snapshot),
                "current": here == page.path or (page.path != "/" and here.startswith(f"{page.path}/")),
            }
            for page in self._pages
            if page.is_there(snapshot)
        ]


def path_to(path: str, *names: object) -> str:
    """Without the prefix. Names may contain any character."""
    return path + "".join(f"/{quote(str(name), safe='')}" for name in names)


def not_found(what: str, name: str, why: str) -> HttpError:
    return HttpError(404, f'{what} "{name}" does not exist', why)


def _one_of(choices: Sequence[str], said: str | None) -> str:
    return said if said is not None and said in choices else choices[0]


def _address(request: Request) -> str:
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")
