"""Who a forwarded request is from, as the bytes inside an Envelope. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.protocol.schema import Message, boolean, string


class DefaultPrincipalData(Message, versions="0", flexible="0+"):
    type: str = string("0+", default="")
    name: str = string("0+", default="")
    token_authenticated: bool = boolean("0+", default=False)
