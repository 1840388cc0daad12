"""Asks a broker for all metadata, as fast as it answers: `python -m interop.prometheus.flood PORT`.

It does nothing with the replies, so that the broker works far more than this program.
"""

from __future__ import annotations

import sys
import threading

from odradek.protocol.headers import request_frame
from odradek.protocol.messages.p03_metadata import MetadataRequest
from traps.wire import Wire

VERSION = 12
AT_ONCE = 100
CONNECTIONS = 2


def flood(port: int) -> None:
    request = request_frame(MetadataRequest.KEY, VERSION, 1, "flood", MetadataRequest(topics=None).encode(VERSION))
    with Wire(port) as wire:
        while True:
            wire.send(request * AT_ONCE)
            for _ in range(AT_ONCE):
                wire.receive_frame()


if __name__ == "__main__":
    for _ in range(CONNECTIONS - 1):
        threading.Thread(target=flood, args=(int(sys.argv[1]),), daemon=True).start()
    flood(int(sys.argv[1]))
