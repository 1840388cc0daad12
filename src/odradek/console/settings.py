"""The settings of a console."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

HOST, PORT = "127.0.0.1", 8080


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    bootstrap: str
    host: str = HOST
    port: int = PORT
    # Take any free port if this one is in use.
    or_any_port: bool = False
    # The path under which a reverse proxy serves the console, such as "/console"; empty at the root.
    prefix: str = ""
    # Host names that browsers use for this console, besides loopback names.
    names: tuple[str, ...] = ()
    read_only: bool = False
    password: str | None = None
    # A proxy that is known by one of `names` asks for a password itself.
    no_password: bool = False
    # Addresses of Connect's REST API; they may contain user and password.
    connect: tuple[str, ...] = ()
    # The address of a schema registry with Confluent's API, to decode Avro and Protobuf; may contain user and password.
    schema_registry: str = ""
    # By broker id, addresses of the nodes' HTTP where they are not the default.
    nodes_http: Mapping[int, str] = field(default_factory=dict)
    # Multiplies how long the conditions of alerts must hold; a test uses a small one.
    alert_time_factor: float = 1.0
