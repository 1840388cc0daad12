"""Who may use the console: sessions, the password, tokens against CSRF, read-only mode, and headers of answers."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from asyncio import sleep as pause
from collections.abc import MutableMapping
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from odradek.console.settings import ConsoleSettings
from odradek.web.errors import HttpError
from odradek.web.guards import is_loopback

SESSION_COOKIE, SIGNED_IN_COOKIE = "odradek-session", "odradek-signed-in"
TOKEN_FIELD, TOKEN_HEADER = "csrf", "x-csrf-token"
SIGNED_IN_S = 12 * 3600
PASSWORD_CHARS_MIN = 8
# Guesses are answered one after another, this far apart.
GUESS_PAUSE_S = 0.5
GUESSES_WAITING_MAX = 10
SIGN_IN_BYTES_MAX = 4096  # of a form that strangers may send
FIELDS_MAX = 500
OPEN_PATHS = ("/sign-in", "/static/")

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Unprotected(Exception):
    """Other machines could reach the console, and it has no password."""


def require_password(settings: ConsoleSettings) -> None:
    """Raises Unprotected."""
    if settings.password is not None and len(settings.password) < PASSWORD_CHARS_MIN:
        raise Unprotected(f"the password is shorter than {PASSWORD_CHARS_MIN} characters")
    if settings.password is None and not is_loopback(settings.host):
        raise Unprotected(
            f"{settings.host} can be reached by other machines: set a password with --password-file, "
            "or ODRADEK_CONSOLE_PASSWORD, or listen on 127.0.0.1"
        )
    others = [name for name in settings.names if not is_loopback(name)]
    if settings.password is None and others and not settings.no_password:
        raise Unprotected(
            f"a proxy makes the console known as {others[0]}: set a password with --password-file, "
            "or say --no-password if the proxy asks for one"
        )


class Guard:
    def __init__(self, settings: ConsoleSettings) -> None:
        self._settings = settings
        self._secret = secrets.token_bytes(32)
        self._guessing = asyncio.Lock()
        self._guesses_waiting = 0
        self._signed_out: dict[str, int] = {}  # ids of sessions until they expire

    # Sessions and tokens

    def session(self, request: Request) -> str:
        """The session in the request's cookie, or a new one."""
        known = request.cookies.get(SESSION_COOKIE, "")
        return known if len(known) >= 16 else secrets.token_urlsafe(24)

    def token(self, session: str) -> str:
        """Only pages of this console know it: it depends on the session and on a secret of this process."""
        return self._signed(f"csrf {session}")

    def keep(self, session: str, request: Request, response: Response) -> None:
        if request.cookies.get(SESSION_COOKIE) != session:
            self._set_cookie(response, SESSION_COOKIE, session)

    async def form(self, request: Request) -> dict[str, str]:
        """The fields of a form. Raises HttpError without the right token, and in read-only mode."""
        fields = await self.fields(request)
        said = fields.pop(TOKEN_FIELD, "") or request.headers.get(TOKEN_HEADER, "")
        if not hmac.compare_digest(said.encode(), self.token(request.cookies.get(SESSION_COOKIE, "")).encode()):
            raise HttpError(403, "the form is out of date", "reload the page, and try again")
        if self._settings.read_only:
            raise HttpError(403, "the console is read-only", "it was started with --read-only")
        return fields

    async def fields(self, request: Request) -> dict[str, str]:
        """The fields of a form that changes nothing in the cluster."""
        return _fields(await request.body())

    # The password

    def is_signed_in(self, request: Request) -> bool:
        if self._settings.password is None:
            return True
        found = self._mark(request)
        return found is not None and found[1] > time.time() and found[0] not in self._signed_out

    def _mark(self, request: Request) -> tuple[str, int] | None:
        """The id of the signed-in session of a request, and until when; None if the cookie is not of this console."""
        said, _, signature = request.cookies.get(SIGNED_IN_COOKIE, "").rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._sign_in_mark(said).encode()):
            return None
        number, _, until = said.partition(".")
        return number, int(until)

    async def sign_in(self, request: Request) -> str | None:
        """The cookie's value after the right password, None after a wrong one.

        Waits before the comparison, so that leaving early gains nothing. Raises HttpError while too many wait.
        """
        said = _fields(await _short_body(request)).get("password", "")
        if self._guesses_waiting >= GUESSES_WAITING_MAX:
            raise HttpError(429, "too many try to sign in", "try again in some seconds")
        self._guesses_waiting += 1
        try:
            async with self._guessing:
                await pause(GUESS_PAUSE_S)
        finally:
            self._guesses_waiting -= 1
        expected = self._settings.password or ""
        if not hmac.compare_digest(hashlib.sha256(said.encode()).digest(), hashlib.sha256(expected.encode()).digest()):
            return None
        session = f"{secrets.token_urlsafe(12)}.{int(time.time()) + SIGNED_IN_S}"
        return f"{session}.{self._sign_in_mark(session)}"

    def signed_in(self, response: Response, mark: str) -> None:
        self._set_cookie(response, SIGNED_IN_COOKIE, mark, SIGNED_IN_S)

    def signed_out(self, request: Request, response: Response) -> None:
        """Ends the session, also for a copy of its cookie."""
        found = self._mark(request)
        if found is not None:
            self._signed_out = {each: until for each, until in self._signed_out.items() if until > time.time()}
            self._signed_out[found[0]] = found[1]
        response.delete_cookie(SIGNED_IN_COOKIE, path=self._settings.prefix or "/")

    def _sign_in_mark(self, session: str) -> str:
        """Depends on the password: a changed password signs everybody out."""
        return self._signed(f"signed in as {session} with {self._settings.password}")

    def _signed(self, text: str) -> str:
        return hmac.new(self._secret, text.encode(), hashlib.sha256).hexdigest()

    def _set_cookie(self, response: Response, name: str, value: str, max_age_s: int | None = None) -> None:
        response.set_cookie(
            name, value, max_age=max_age_s, path=self._settings.prefix or "/", httponly=True, samesite="strict"
        )


def _fields(body: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX))
    except ValueError as wrong:
        raise HttpError(400, "the form cannot be read", str(wrong)) from None


async def _short_body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > SIGN_IN_BYTES_MAX:
            raise HttpError(413, "the request's body is too large", f"the limit is {SIGN_IN_BYTES_MAX} bytes")
    return bytes(body)


class Protected:
    """Adds the headers to all answers, and sends browsers without the password to the sign-in page."""

    def __init__(self, app: ASGIApp, guard: Guard, prefix: str) -> None:
        self._app = app
        self._guard = guard
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add(message, HEADERS)
            await send(message)

        request = Request(scope)
        path = scope["path"].removeprefix(self._prefix)
        if path.startswith(OPEN_PATHS) or self._guard.is_signed_in(request):
            await self._app(scope, receive, with_headers)
        elif scope["method"] in ("GET", "HEAD") and "text/html" in request.headers.get("accept", ""):
            await RedirectResponse(f"{self._prefix}/sign-in", 303)(scope, receive, with_headers)
        else:
            told = HttpError(401, "this console needs a password", f"sign in at {self._prefix}/sign-in")
            await told.response()(scope, receive, with_headers)


def _add(message: MutableMapping[str, object], headers: dict[str, str]) -> None:
    known = list(message.get("headers", []))  # type: ignore[call-overload]
    names = {name.lower() for name, _ in known}
    known += [(name.encode(), value.encode()) for name, value in headers.items() if name.encode() not in names]
    message["headers"] = known


def is_own_path(text: str, prefix: str) -> bool:
    """A path of this server, not an address of another one such as //example.org or /\\example.org."""
    return text.startswith(f"{prefix}/") and not text.startswith(("//", "/\\")) and text.isprintable()
