"""API 58, Envelope, versions 0. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.protocol.schema import Message, binary, int16


class EnvelopeRequest(Message, key=58, versions="0", flexible="0+"):
    request_data: bytes = binary("0+", default=b"")
    request_principal: bytes | None = binary("0+", nullable="0+", default=b"")
    client_host_address: bytes = binary("0+", default=b"")


class EnvelopeResponse(Message, key=58, versions="0", flexible="0+"):
    response_data: bytes | None = binary("0+", nullable="0+", default=None)
    error_code: int = int16("0+", default=0)
