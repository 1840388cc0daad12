"""The one HTTP stack: a Starlette application served by uvicorn, event streams, errors as JSON."""

from odradek.web.application import PackageFiles, application
from odradek.web.errors import HttpError
from odradek.web.events import Broadcast, Event
from odradek.web.server import CannotListen, HttpServer

__all__ = ["Broadcast", "CannotListen", "Event", "HttpError", "HttpServer", "PackageFiles", "application"]
