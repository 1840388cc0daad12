"""Network partitions (walls) between the nodes of an embedded cluster. Traffic stops silently, as with lost packets.

A wall is in the network layer of a node, around its connections to peers. Data to send is held back, received data is
not read, and new connections are not made. When the wall is removed, all of this continues, as in TCP. Connections of
clients are not affected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from weakref import WeakSet

from odradek.base.ports import Link, Listener, Net, ProtocolFactory, Region


class WalledNet:
    """A node's network, with walls in front of some ports of its peers."""

    def __init__(self, inner: Net, peer_ports: Collection[int]) -> None:
        self._inner = inner
        self._peer_ports = frozenset(peer_ports)
        self._walled: frozenset[int] = frozenset()
        self._fallen = asyncio.Event()
        self._links: dict[WalledLink, int] = {}
        # Connections to all peers and clients, both incoming and outgoing.
        self._transports: WeakSet[asyncio.Transport] = WeakSet()

    def drop_connections(self) -> None:
        """Abort all open connections, and lose data in flight. New connections are allowed."""
        for transport in list(self._transports):
            transport.abort()

    def wall_off(self, ports: Collection[int]) -> None:
        """Block exactly these ports from now on."""
        self._walled = frozenset(ports)
        self._fallen.set()
        self._fallen = asyncio.Event()
        for link, port in list(self._links.items()):
            if port in self._walled:
                link.shut()
            else:
                link.open()

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> Listener:
        return await self._inner.listen(host, port, factory)

    async def connect(self, host: str, port: int, factory: ProtocolFactory) -> None:
        while port in self._walled:
            await self._fallen.wait()
        await self._inner.connect(host, port, factory)

    def link(self, transport: asyncio.Transport) -> Link:
        self._transports.add(transport)
        inner = self._inner.link(transport)
        peer = transport.get_extra_info("peername")
        if not peer or peer[1] not in self._peer_ports:
            return inner
        link = WalledLink(inner, transport, self._links)
        self._links[link] = peer[1]
        if peer[1] in self._walled:
            link.shut()
        return link


class WalledLink:
    def __init__(self, inner: Link, transport: asyncio.Transport, registry: dict[WalledLink, int]) -> None:
        self._inner = inner
        self._transport = transport
        self._registry = registry
        self._shut = False
        # Data that was sent while the wall was up.
        self._held: list[bytes | bytearray | Region] = []

    def shut(self) -> None:
        if not self._shut and not self._transport.is_closing():
            self._shut = True
            self._transport.pause_reading()

    def open(self) -> None:
        if self._shut:
            self._shut = False
            held, self._held = self._held, []
            if self._transport.is_closing():
                _release(held)
                return
            self._transport.resume_reading()
            if held:
                self._inner.send(held)

    def send(self, parts: Sequence[bytes | bytearray | Region]) -> None:
        if self._shut:
            self._held.extend(parts)
        else:
            self._inner.send(parts)

    def pump(self) -> None:
        self._inner.pump()

    def unsent_bytes(self) -> int:
        held = sum(part.length if isinstance(part, Region) else len(part) for part in self._held)
        return held + self._inner.unsent_bytes()

    def lost(self) -> None:
        self._registry.pop(self, None)
        _release(self._held)
        self._held = []
        self._inner.lost()


def _release(parts: Sequence[bytes | bytearray | Region]) -> None:
    for part in parts:
        if isinstance(part, Region):
            part.release()
