"""What a handler is given, and how an API says what it serves.

A handler answers client mistakes with error codes; an exception that escapes it is a bug and costs the connection.
A message is sent at once. An awaitable (every coroutine function returns one) runs as a task and its connection reads
nothing more until it has answered, as Kafka mutes a channel: what a client pipelines behind it sees its effect.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from odradek.base.ports import Region
from odradek.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from odradek.protocol.schema import Message
    from odradek.server.broker import Broker
    from odradek.server.controller.controller import Controller


# A reply on its way out: the whole frame, length first. Empty: this request gets no reply.
Parts = list[bytes | bytearray | Region]


class ReplySlot(Protocol):
    """A place in the connection's reply order. Filled once; filling a slot of a lost connection is harmless."""

    def fill(self, parts: Parts) -> None: ...

    def let_pass(self) -> None:
        """Read on, if this request stopped the reading: what comes behind it may be handled before it is answered."""


class Connection(Protocol):
    @property
    def client_host(self) -> str: ...

    @property
    def principal(self) -> str: ...

    def park(self, *, stop_reading: bool, on_lost: Callable[[], None] | None = None) -> ReplySlot:
        """Take this request's place in the reply order, to be filled later. `on_lost`: nobody waits for it any more."""

    def end(self, why: str) -> None:
        """Read nothing more, and close once the requests before this one are answered. `why` is logged."""


class RequestContext:
    __slots__ = ("broker", "client_id", "connection", "correlation_id", "version")

    def __init__(
        self, broker: Broker, connection: Connection, version: int, correlation_id: int, client_id: str | None
    ) -> None:
        self.broker = broker
        self.connection = connection
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id

    @property
    def principal(self) -> str:
        return self.connection.principal

    @property
    def client_host(self) -> str:
        return self.connection.client_host

    def authorize(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        return self.broker.authorizer.authorize(self.connection.principal, operation, resource_type, name)


class ControllerContext(RequestContext):
    """Of a request that came to the controller listener."""

    __slots__ = ()

    @classmethod
    def of(cls, controller: Controller, connection: Connection, version: int) -> ControllerContext:
        """Of a request that a node makes to itself."""
        return cls(cast("Broker", controller), connection, version, 0, None)

    @property
    def controller(self) -> Controller:
        return cast("Controller", self.broker)


# A RequestContext or a ControllerContext, and the decoded request.
Handler = Callable[[Any, Any], "Message | Awaitable[Message]"]
# Gets the frame's body without a copy and must keep no view of it. Returns the reply's parts (none: no reply),
# or None after it has taken a slot with `connection.park`.
FrameHandler = Callable[[RequestContext, memoryview, int, int], Parts | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """A served API whose requests are decoded in full before its handler sees them."""

    key: int
    versions: tuple[int, int]
    request: type[Message]
    handle: Handler

    @property
    def advertised(self) -> tuple[int, int]:
        return self.versions


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameApi:
    """Produce and Fetch: the handler decodes the frame itself, so that no record is copied."""

    key: int
    versions: tuple[int, int]
    advertised: tuple[int, int]
    handle: FrameHandler
