"""DogStatsD over UDP or a Unix datagram socket."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from odradek.base.limits import dogstatsd_udp_bytes_max, dogstatsd_unix_bytes_max
from odradek.export.destinations import DogStatsdAddress, Identity
from odradek.export.pushing import PushFailed
from odradek.monitor.dogstatsd import Datagrams
from odradek.monitor.registry import Snapshot

# A Unix socket whose reader is slow blocks the writer.
TIMEOUT_S = 1.0


class DogStatsdAgent:
    def __init__(self, address: DogStatsdAddress, identity: Identity, labels: Mapping[str, str]) -> None:
        self._address = address
        bytes_max = dogstatsd_unix_bytes_max if address.path else dogstatsd_udp_bytes_max
        tags = {"service": identity.service, "instance": identity.instance, **labels}
        self._datagrams = Datagrams(bytes_max, tags)
        self._socket: socket.socket | None = None

    def push(self, snapshot: Snapshot) -> None:
        try:
            if self._socket is None:
                self._socket = self._connected()
            for datagram in self._datagrams.of(snapshot):
                self._socket.send(datagram.content)
                self._datagrams.sent(datagram)
        except OSError as broken:
            self.close()
            raise PushFailed(str(broken)) from broken

    def _connected(self) -> socket.socket:
        if self._address.path:
            family, place = socket.AF_UNIX, self._address.path
        else:
            found = socket.getaddrinfo(self._address.host, self._address.port, type=socket.SOCK_DGRAM)
            family, place = found[0][0], found[0][4]  # type: ignore[assignment]
        connected = socket.socket(family, socket.SOCK_DGRAM)
        try:
            connected.settimeout(TIMEOUT_S)
            connected.connect(place)
        except OSError:
            connected.close()
            raise
        return connected

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
