"""Injects faults, at moments drawn from the seed.

Each fault ends by itself, later: several may hold at once. In the end all is repaired, and stays so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from odradek.sim.knobs import LOST_DISK, POWER_CUTS, STOPS, WALLS, Knobs
from odradek.sim.loop import SECOND_NS, Host, SimLoop
from odradek.sim.machine import Machine
from odradek.sim.net import SimNet, Wall, one_way, two_ways
from odradek.sim.truth import Truth

BURIED_WITHIN_S = 30.0


class Nemesis:
    """In a cluster, half of its faults hit the nodes that lead the most."""

    def __init__(
        self,
        loop: SimLoop,
        net: SimNet,
        machines: Sequence[Machine],
        clients: list[Host],
        knobs: Knobs,
        rng: Random,
        truth: Truth,
    ) -> None:
        self._loop = loop
        self._clients = clients
        self._net = net
        self._machines = machines
        self._knobs = knobs
        self._rng = rng
        self._truth = truth
        self._under_way: list[asyncio.Task[None]] = []
        # Lost its disk or its unsynced data, and the controller does not know it yet. Another machine that failed now,
        # or was fenced, might have the only copy.
        self._mourned: Machine | None = None
        self._vigil: asyncio.Task[None] | None = None
        self.fired: dict[str, int] = {}

    async def run(self) -> None:
        """Runs until the run's time is over; leaves all nodes up and the network open."""
        ends_at = self._loop.time() + self._knobs.duration_s
        while self._loop.time() < ends_at:
            await asyncio.sleep(self._rng.expovariate(1.0) * self._knobs.fault_gap_mean_s)
            if not self._raise_the_dead() and self._knobs.faults and self._mourned is None:
                self._break(self._rng.choice(self._knobs.faults))
        await self._make_peace()

    def _raise_the_dead(self) -> bool:
        """Boots a machine that is down: a single machine always, one of several half of the time."""
        down = [machine for machine in self._machines if machine.host is None]
        if down and (len(self._machines) == 1 or self._rng.random() < 0.5):
            self._rng.choice(down).boot()
            return True
        return False

    async def _make_peace(self) -> None:
        """From here on nothing breaks. A node whose disk was full or failing has to restart."""
        self._calm_down()
        self._net.knobs = replace(self._net.knobs, straggle=0.0)
        # Stops under way must be over, or they would happen later.
        await asyncio.gather(*self._under_way, return_exceptions=True)
        self._calm_down()
        await self._bury()
        for machine in self._machines:
            disk = machine.disk
            disk.knobs = replace(disk.knobs, short_write=0.0, write_error=0.0, sync_error=0.0)
            if disk.disturbed and machine.host is not None:
                machine.kill()
            machine.boot_if_down()

    async def _bury(self) -> None:
        """Waits until no machine is mourned: until then no other machine may go down."""
        ends_at = self._loop.time() + BURIED_WITHIN_S
        while self._mourned is not None and self._loop.time() < ends_at:
            for machine in self._machines:
                machine.boot_if_down()
            await asyncio.sleep(0.1)

    def _calm_down(self) -> None:
        """Ends all disturbances, and cancels faults that wait for a write."""
        self._net.tear_down_all()
        self._net.slow_ways.clear()
        for host in (*self._clients, *(machine.host for machine in self._machines)):
            if host is not None:
                self._loop.resume(host)
        for machine in self._machines:
            machine.disk.full = False
            if machine.disk.mounted is not None:
                machine.disk.mounted.before_change = lambda _what: None

    # Who is hit

    def _victim(self) -> Machine | None:
        """A machine that is up."""
        up = [machine for machine in self._machines if machine.host is not None]
        if not up:
            return None
        important = [machine for machine in self._truth.important() if machine.host is not None]
        if important and len(self._machines) > 1 and self._rng.random() < 0.5:
            return self._rng.choice(important[:2])
        return self._rng.choice(up)

    def _may_fall(self) -> int:
        """How many more machines may go down."""
        return self._knobs.down_max - sum(machine.host is None for machine in self._machines)

    def _may_lose_power(self, machine: Machine) -> bool:
        """At any time, or only once all others have the data it will lose. While mourned, it may lose power again."""
        if self._knobs.power_cuts_at_once or self._mourned is machine:
            return True
        return self._mourned is None and self._truth.stays_whole()

    def _lose_power(self, machine: Machine) -> None:
        if machine.host is not None and self._may_lose_power(machine):
            self._mourn_memory(machine)
            machine.lose_power()

    def _mourn_memory(self, machine: Machine) -> None:
        if not self._knobs.power_cuts_at_once:
            self._mourn(machine)

    def _mourn(self, machine: Machine) -> None:
        """No other machine fails until this one has registered again, with less data."""
        if self._mourned is None:
            self._mourned = machine
            self._calm_down()
            self._vigil = self._loop.create_task(self._wait_for_its_word(machine), name="vigil")
            self._vigil.add_done_callback(self._complain)

    async def _wait_for_its_word(self, machine: Machine) -> None:
        known_as = self._truth.registered(machine.number)
        while machine.is_broker and self._truth.registered(machine.number) == known_as:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.1)
        self._mourned = None

    def _break(self, fault: str) -> None:
        victim = self._victim()
        if victim is None or victim.host is None:
            return
        if fault in STOPS:
            if self._may_fall() < 1 or (fault in POWER_CUTS and not self._may_lose_power(victim)):
                return
            self._begin(self._stop(fault, victim))
        elif fault == LOST_DISK:
            if not self._may_lose_disk():
                return
            self._begin(self._lose_disk(victim))
        elif fault in ("kill of several", "power cut of several"):
            self._stop_several(fault)
        elif fault in WALLS:
            self._begin(self._build_wall(fault, victim))
        else:
            self._disturb(fault, victim, victim.host)
        self.fired[fault] = self.fired.get(fault, 0) + 1

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work, name="nemesis")
        task.add_done_callback(self._complain)
        self._under_way.append(task)

    def _complain(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._loop.failures.append(problem)

    # Machines that go down

    async def _stop(self, fault: str, machine: Machine) -> None:
        match fault:
            case "power cut":
                self._lose_power(machine)
                await self._stay_down(machine)
            case "power cut at a write":
                machine.cut_at_operation(self._operations(), partial(self._lose_power, machine))
            case "kill":
                machine.kill()
                await self._stay_down(machine)
            case "power cut after a kill":
                await self._kill_and_lose_power(machine)
            case "kill at a write":
                machine.cut_at_operation(self._operations(), machine.kill)
            case "clean stop":
                await machine.stop_cleanly(then_lose_power=False)
            case "power cut after a clean stop":
                await machine.stop_cleanly(then_lose_power=True)

    def _stop_several(self, fault: str) -> None:
        up = [machine for machine in self._machines if machine.host is not None]
        count = min(len(up), self._may_fall())
        for machine in self._rng.sample(up, max(0, count)):
            if fault == "kill of several":
                machine.kill()
            else:
                machine.lose_power()
            self._begin(self._stay_down(machine))

    async def _kill_and_lose_power(self, machine: Machine) -> None:
        """The restarted process serves what the killed one had not synced; then the power cut takes it."""
        self._mourn_memory(machine)
        machine.kill()
        machine.boot()
        for _ in range(self._rng.randrange(1, 100)):
            await asyncio.sleep(0.01)
            if machine.started:
                await asyncio.sleep(self._rng.expovariate(1.0) * 0.1)
                break
        self._lose_power(machine)

    def _may_lose_disk(self) -> bool:
        """Only once all others have the data on it, and all controllers are voters again."""
        is_quiet = all(task.done() for task in self._under_way)
        return is_quiet and self._truth.stays_whole() and self._truth.have_all_seats()

    async def _lose_disk(self, machine: Machine) -> None:
        self._mourn(machine)
        machine.lose_disk()
        await self._stay_down(machine)
        while self._mourned is machine:
            machine.boot_if_down()
            await asyncio.sleep(0.1)

    def _operations(self) -> int:
        return self._rng.choice((1, 3, 10, 50, 200))

    async def _stay_down(self, machine: Machine) -> None:
        await asyncio.sleep(self._rng.expovariate(1.0) * self._knobs.down_mean_s)
        if machine.host is None:
            machine.boot()
            if self._rng.random() < 0.3 and self._mourned in (None, machine):
                self._hit_recovery(machine)

    def _hit_recovery(self, machine: Machine) -> None:
        """Fails again while it still recovers."""
        if "power cut at a write" in self._knobs.faults:
            machine.cut_at_operation(self._operations(), partial(self._lose_power, machine))
        elif "kill at a write" in self._knobs.faults:
            machine.cut_at_operation(self._operations(), machine.kill)

    # What is only disturbed

    def _disturb(self, fault: str, machine: Machine, host: Host) -> None:
        match fault:
            case "pause":
                self._pause(host, 2.0)
            case "long pause":
                self._pause(host, 8.0)
            case "client pause":
                # Long enough for a group to go on without it.
                self._pause(self._rng.choice(self._clients), 4.0)
            case "clog":
                self._net.clog(host, int(self._rng.expovariate(1.0) * SECOND_NS))
            case "reset":
                self._net.reset_one()
            case "clock jump":
                machine.clock.wall_offset_ms += self._rng.randrange(-10_000, 10_000)
            case "slow way":
                self._slow_down(machine)
            case "full disk":
                self._loop.note(f"the disk of {machine.name} is full")
                machine.disk.full = True
                self._later(2.0, self._make_room, machine)

    def _pause(self, host: Host, mean_s: float) -> None:
        self._loop.note(f"{host.name} pauses")
        self._loop.pause(host)
        self._later(mean_s, self._loop.resume, host)

    def _make_room(self, machine: Machine) -> None:
        self._loop.note(f"the disk of {machine.name} has room again")
        machine.disk.full = False

    def _slow_down(self, machine: Machine) -> None:
        other = self._rng.choice([each for each in self._machines if each is not machine])
        way = (machine.address[0], other.address[0])
        self._net.slow_ways[way] = self._rng.choice((5.0, 50.0, 500.0))
        self._loop.note(f"the way from {way[0]} to {way[1]} is slow")
        self._later(4.0, self._net.slow_ways.pop, way, None)

    def _later(self, mean_s: float, call: Callable[..., object], *args: Any) -> None:
        when_ns = self._loop.now_ns + int(self._rng.expovariate(1.0) * mean_s * SECOND_NS)
        self._loop.call_at_ns(when_ns, self._loop.world, call, *args)

    # Walls

    async def _build_wall(self, fault: str, victim: Machine) -> None:
        wall = self._draw_wall(fault, victim)
        self._loop.note(f"{fault}: {', '.join(f'{sender} to {receiver}' for sender, receiver in wall.ways)}")
        self._net.raise_wall(wall)
        try:
            await asyncio.sleep(self._rng.expovariate(1.0) * self._knobs.wall_mean_s)
        finally:
            if wall in self._net.walls:
                self._loop.note(f"the {fault} falls")
                self._net.tear_down(wall)

    def _draw_wall(self, fault: str, victim: Machine) -> Wall:
        addresses = [machine.address[0] for machine in self._machines]
        alone = victim.address[0]
        others = [address for address in addresses if address != alone]
        rejects = self._rng.random() < 0.3
        match fault:
            case "wall around one":
                return Wall(ways=two_ways([alone], others), rejects=rejects)
            case "one-way wall":
                some = self._rng.sample(others, self._rng.randint(1, len(others)))
                ways = one_way([alone], some) if self._rng.random() < 0.5 else one_way(some, [alone])
                return Wall(ways=ways, rejects=rejects)
            case "wall between halves":
                half = self._rng.sample(addresses, self._rng.randint(1, len(addresses) - 1))
                return Wall(ways=two_ways(half, [each for each in addresses if each not in half]), rejects=rejects)
            case _:
                outside = [client.address for client in self._clients if self._rng.random() < 0.5]
                return Wall(ways=two_ways([alone], outside), rejects=rejects)
