"""`odradek node start` whose network and disk obey stdin.

`python -m interop.prometheus.hindered_node PEER-PORT,... ARGUMENTS-OF-ODRADEK`

`walls PORT ...`: the node reaches none of these ports of its peers; without ports it reaches all of them again.
`fsync SECONDS`: each fsync takes so much longer.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from odradek.adapters import disk
from odradek.base.ports import Ports
from odradek.cli.main import main
from odradek.node import process
from odradek.testing.walls import WalledNet

_serve = process.serve


class SlowDisk:
    """The functions of `os`, with an fsync that takes longer."""

    def __init__(self) -> None:
        self.delay_s = 0.0

    def fsync(self, descriptor: int) -> None:
        time.sleep(self.delay_s)
        os.fsync(descriptor)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


async def _serve_hindered(peers: list[int], slow: SlowDisk, *arguments: Any, **options: Any) -> None:
    loop = asyncio.get_running_loop()

    def around(ports: Ports) -> Ports:
        net = WalledNet(ports.net, peers)
        threading.Thread(target=_obey, args=(slow, net, loop.call_soon_threadsafe), daemon=True).start()
        return replace(ports, net=net)

    await _serve(*arguments, around=around, **options)


def _obey(slow: SlowDisk, net: WalledNet, call: Callable[..., object]) -> None:
    for line in sys.stdin:
        order, *values = line.split()
        if order == "walls":
            call(net.wall_off, [int(port) for port in values])
        else:
            slow.delay_s = float(values[0])


if __name__ == "__main__":
    slow_disk = SlowDisk()
    vars(disk)["os"] = slow_disk
    vars(process)["serve"] = partial(_serve_hindered, [int(port) for port in sys.argv[1].split(",")], slow_disk)
    main(sys.argv[2:])
