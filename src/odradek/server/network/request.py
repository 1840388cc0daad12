"""One request from its header to its end, what a handler is given of it, and how an API says what it serves.

A handler answers client errors with error codes. An exception that escapes it is a bug and closes the connection,
except KafkaError where the API has `refuse`. A message is sent at once. An awaitable (every coroutine function returns
one) runs as a task, and its connection reads nothing more until it has answered, as Kafka mutes a channel: requests
that a client pipelines behind it see its effect.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from odradek.base.errors import KafkaError
from odradek.base.ids import BrokerId
from odradek.base.ports import Clock, Region, Rng, Spawner
from odradek.security.authorizer import Authorizer, Operation, ResourceType

if TYPE_CHECKING:
    from odradek.metadata.configs.broker import BrokerConfig
    from odradek.metadata.image import ClusterImage
    from odradek.protocol.schema import Message
    from odradek.server.broker import Broker
    from odradek.server.controller.active_controller import ActiveController
    from odradek.server.controller.controller import Controller
    from odradek.server.loggers import Loggers
    from odradek.server.network.life_cycle import ObservedApi, Observer


# A reply on its way out: the whole frame, length first. Empty: this request gets no reply.
Parts = list[bytes | bytearray | Region]


class ClientSoftware(NamedTuple):
    """From ApiVersions 3 and later; other clients do not name it."""

    name: str = "unknown"
    version: str = "unknown"


UNKNOWN_SOFTWARE = ClientSoftware()


class ReplySlot(Protocol):
    """A place in the connection's reply order. Filled once; filling a slot of a lost connection is harmless."""

    # Called when the connection is lost before the slot is filled.
    on_lost: Callable[[], None] | None

    def fill(self, parts: Parts) -> None: ...

    def let_pass(self) -> None:
        """Reads on, if this request stopped the reading: later requests may be handled before it is answered."""


class Connection(Protocol):
    @property
    def client_host(self) -> str: ...

    @property
    def client_port(self) -> int: ...

    @property
    def principal(self) -> str: ...

    # Name and version of the client's software, from its ApiVersions request.
    software: ClientSoftware

    # The request whose handler is being called.
    request: RequestContext | None

    @property
    def observer(self) -> Observer | None:
        """Counts its requests and their error codes."""

    def park(self, *, stop_reading: bool, on_lost: Callable[[], None] | None = None) -> ReplySlot:
        """Takes this request's place in the reply order, to be filled later. `on_lost`: the connection is lost."""

    def end(self, why: str) -> None:
        """Read nothing more, and close once the requests before this one are answered. `why` is logged."""


class ListenerConnection(Connection, Protocol):
    def measure(self, request: RequestContext, api: ObservedApi, size: int) -> None:
        """Before its handler is called."""


class Host(Protocol):
    """What serves requests: a broker, or the controller of a node. Handlers of administrative requests run on both."""

    @property
    def node_id(self) -> BrokerId: ...
    @property
    def cluster_id(self) -> str: ...
    @property
    def config(self) -> BrokerConfig: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def rng(self) -> Rng: ...
    @property
    def spawner(self) -> Spawner: ...
    @property
    def authorizer(self) -> Authorizer: ...
    @property
    def apis(self) -> Mapping[int, Api | FrameApi]: ...
    @property
    def controller(self) -> ActiveController: ...
    @property
    def image(self) -> ClusterImage: ...
    @property
    def loggers(self) -> Loggers: ...


class RequestContext:
    """A request. One that is measured is handed over once when it has ended: answered, without a reply, or its
    connection lost. Only then it has sizes and times, the latter in nanoseconds of the monotonic clock."""

    __slots__ = (
        "answered_ns",
        "api",
        "bytes_in",
        "bytes_out",
        "client_id",
        "connection",
        "correlation_id",
        "ended_ns",
        "errors",
        "handled_ns",
        "host",
        "received_ns",
        "returned_ns",
        "sending_ns",
        "stands_for",
        "version",
    )

    api: Api | FrameApi
    stands_for: int  # how many requests of its API were counted since the last one that was measured, itself included
    bytes_in: int
    bytes_out: int
    received_ns: int  # its last byte came
    handled_ns: int  # its handler was called
    returned_ns: int  # its handler returned, perhaps to answer later
    answered_ns: int  # its reply was made; when it has none, as `returned_ns`
    sending_ns: int  # its reply is the next to be sent
    ended_ns: int  # its reply was handed to the socket, or there will be none

    def __init__(
        self, host: Host, connection: Connection, version: int, correlation_id: int, client_id: str | None
    ) -> None:
        self.host = host
        self.connection = connection
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        # Error codes of its reply, each as often as it is there.
        self.errors: list[int] | tuple[()] = ()

    @property
    def principal(self) -> str:
        return self.connection.principal

    @property
    def client_host(self) -> str:
        return self.connection.client_host

    @property
    def queue_ns(self) -> int:
        """Kafka's RequestQueueTime: behind other requests of its connection."""
        return self.handled_ns - self.received_ns

    @property
    def local_ns(self) -> int:
        return min(self.returned_ns, self.answered_ns) - self.handled_ns

    @property
    def remote_ns(self) -> int:
        """It waited for other nodes, a disk, or more records."""
        return max(0, self.answered_ns - self.returned_ns)

    @property
    def reply_queue_ns(self) -> int:
        """Its reply waited for those of earlier requests."""
        return self.sending_ns - self.answered_ns

    @property
    def send_ns(self) -> int:
        return self.ended_ns - self.sending_ns

    @property
    def total_ns(self) -> int:
        return self.ended_ns - self.received_ns

    def note_error(self, code: int) -> None:
        """The reply has this error code, perhaps not the only one."""
        if isinstance(self.errors, list):
            self.errors.append(code)
        else:
            self.errors = [code]

    def authorize(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        return self.host.authorizer.authorize(self.connection.principal, operation, resource_type, name)


class BrokerContext(RequestContext):
    """A request that came to the listener for clients and brokers."""

    __slots__ = ("broker",)

    def __init__(
        self, host: Broker, connection: Connection, version: int, correlation_id: int, client_id: str | None
    ) -> None:
        self.host = self.broker = host
        self.connection = connection
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.errors = ()


class ControllerContext(RequestContext):
    """A request that came to the controller listener."""

    __slots__ = ("controller",)

    def __init__(
        self,
        host: Controller,
        connection: Connection,
        version: int,
        correlation_id: int = 0,
        client_id: str | None = None,
    ) -> None:
        super().__init__(host, connection, version, correlation_id, client_id)
        self.controller = host


# The context of a request, and the decoded request.
Handler = Callable[[Any, Any], "Message | Awaitable[Message]"]
Refuse = Callable[[Any, Any, KafkaError], "Message"]
# From the context and a request: the part of the request that is forwarded (None: nothing), and what makes the reply to
# this part, or None, the reply to all of it.
Keep = Callable[[Any, Any], tuple[Any, Callable[[Any], "Message"]]]
# Gets the frame's body without a copy and must keep no view of it. Returns the reply's parts (none: no reply),
# or None after it has taken a slot with `connection.park`.
FrameHandler = Callable[[Any, memoryview, int, int], Parts | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """A served API whose requests are decoded in full before its handler sees them."""

    key: int
    versions: tuple[int, int]
    request: type[Message]
    handle: Handler
    # The reply when the handler raises KafkaError. None: it raises none.
    refuse: Refuse | None = None
    # For a forwarded API: a part of the request may concern the node that received it, not the cluster.
    keep: Keep | None = None

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
