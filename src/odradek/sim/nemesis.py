"""The one who breaks things, at moments drawn from the seed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random

from odradek.sim.knobs import STOPS, Knobs
from odradek.sim.loop import SECOND_NS, Host, SimLoop
from odradek.sim.machine import Machine
from odradek.sim.net import SimNet


class Nemesis:
    def __init__(
        self, loop: SimLoop, net: SimNet, machine: Machine, clients: list[Host], knobs: Knobs, rng: Random
    ) -> None:
        self._loop = loop
        self._clients = clients
        self._net = net
        self._machine = machine
        self._knobs = knobs
        self._rng = rng
        self.fired: dict[str, int] = {}

    async def run(self) -> None:
        """Until the run's time is over; leaves the node up and the network open."""
        ends_at = self._loop.time() + self._knobs.duration_s
        while self._loop.time() < ends_at:
            await asyncio.sleep(self._rng.expovariate(1.0) * self._knobs.fault_gap_mean_s)
            if self._machine.host is None:
                self._machine.boot()
            elif self._knobs.faults:
                await self._break(self._rng.choice(self._knobs.faults), self._machine.host)
        await self._make_peace()

    async def _make_peace(self) -> None:
        """From here on nothing breaks. A disk that was full or failing was replaced: the node has to begin anew."""
        disk = self._machine.disk
        disk.knobs = replace(disk.knobs, short_write=0.0, write_error=0.0, sync_error=0.0)
        if disk.mounted is not None:
            disk.mounted.before_change = lambda _what: None
        if disk.disturbed and self._machine.host is not None:
            self._machine.kill()
        self._machine.boot_if_down()

    async def _break(self, fault: str, host: Host) -> None:
        self.fired[fault] = self.fired.get(fault, 0) + 1
        if fault in STOPS:
            await self._stop(fault)
        else:
            await self._disturb(fault, host)

    async def _stop(self, fault: str) -> None:
        machine = self._machine
        match fault:
            case "power cut":
                machine.lose_power()
                await self._stay_down()
            case "power cut at a write":
                machine.cut_at_operation(self._operations(), machine.lose_power)
            case "kill":
                machine.kill()
                await self._stay_down()
            case "power cut after a kill":
                await self._kill_and_lose_power()
            case "kill at a write":
                machine.cut_at_operation(self._operations(), machine.kill)
            case "clean stop":
                await machine.stop_cleanly(then_lose_power=False)
            case "power cut after a clean stop":
                await machine.stop_cleanly(then_lose_power=True)

    async def _disturb(self, fault: str, host: Host) -> None:
        match fault:
            case "pause":
                self._loop.note("node pauses")
                self._loop.pause(host)
                await asyncio.sleep(self._rng.expovariate(1.0) * 2)
                self._loop.resume(host)
                self._loop.note("node goes on")
            case "client pause":
                self._pause_client()
            case "clog":
                self._net.clog(host, int(self._rng.expovariate(1.0) * SECOND_NS))
            case "reset":
                self._net.reset_one()
            case "clock jump":
                self._machine.clock.wall_offset_ms += self._rng.randrange(-10_000, 10_000)

    def _pause_client(self) -> None:
        """Long enough for a group to go on without it."""
        client = self._rng.choice(self._clients)
        self._loop.note(f"{client.name} pauses")
        self._loop.pause(client)
        self._loop.call_at_ns(
            self._loop.now_ns + int(self._rng.expovariate(1.0) * 4 * SECOND_NS),
            self._loop.world,
            self._loop.resume,
            client,
        )

    async def _kill_and_lose_power(self) -> None:
        """What the killed one had not synced is shown by the next one; and then it is gone."""
        machine = self._machine
        machine.kill()
        machine.boot()
        for _ in range(self._rng.randrange(1, 100)):
            await asyncio.sleep(0.01)
            if machine.started:
                await asyncio.sleep(self._rng.expovariate(1.0) * 0.1)
                break
        if machine.host is not None:
            machine.lose_power()

    def _operations(self) -> int:
        return self._rng.choice((1, 3, 10, 50, 200))

    async def _stay_down(self) -> None:
        await asyncio.sleep(self._rng.expovariate(1.0) * 0.5)
        if self._machine.host is None:
            self._machine.boot()
            if self._rng.random() < 0.3 and self._knobs.faults:
                self._hit_recovery()

    def _hit_recovery(self) -> None:
        """Once more while it is still getting up."""
        machine = self._machine
        if "power cut at a write" in self._knobs.faults:
            machine.cut_at_operation(self._operations(), machine.lose_power)
        elif "kill at a write" in self._knobs.faults:
            machine.cut_at_operation(self._operations(), machine.kill)
