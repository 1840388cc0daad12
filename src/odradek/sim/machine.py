"""The machine that a node runs on: boots it, cuts its power, kills it, stops it, and keeps its disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from odradek.base.ids import DirectoryId
from odradek.base.ports import Ports
from odradek.base.steps import Finished
from odradek.log.cleaning import Cleaned
from odradek.log.directory import LogDirectory
from odradek.node.build import Node
from odradek.node.config import NodeConfig
from odradek.sim.checkers import RecoveryWatch
from odradek.sim.cluster import address_of, draw_voters, format_disk, settings_of
from odradek.sim.disk import SimDisk
from odradek.sim.history import Violation
from odradek.sim.inside import logs_of
from odradek.sim.knobs import Knobs
from odradek.sim.loop import PPM, SECOND_NS, Host, SimLoop, SimulationFailed
from odradek.sim.net import SimNet
from odradek.sim.on_disk import StoredLog
from odradek.sim.ports import SimClock, SimSpawner
from odradek.sim.randomness import SimRng, Streams

# A node that is asked to stop, and is neither paused nor behind a wall, takes no longer.
STOPPING_S = 60.0


class Machine:
    """`incarnation` counts the boots. `on_loaded` is called each time that a node has recovered its logs."""

    def __init__(
        self,
        loop: SimLoop,
        net: SimNet,
        streams: Streams,
        knobs: Knobs,
        number: int,
        on_loaded: Callable[[int, dict[str, StoredLog]], None],
    ) -> None:
        self._loop = loop
        self._net = net
        self._streams = streams
        self._knobs = knobs
        self._on_loaded = on_loaded
        self.number = number
        self.name = f"node{number}"
        self.address = address_of(number)
        self._config = NodeConfig.parse(settings_of(number, knobs))
        self.is_broker = self._config.is_broker
        self.is_controller = self._config.controller_listener is not None
        self.clock = self._new_clock()
        self.disk = SimDisk(streams.stream(f"disk {number}"), knobs.disk)
        # The id of the disk that it has now.
        self.directory_id: DirectoryId | None = None
        if knobs.nodes > 1:
            self._cluster_id, voters = draw_voters(streams.stream("voters"), knobs)
            self.directory_id = format_disk(self.disk, number, self._cluster_id, voters, self.clock)
        self.recovery = RecoveryWatch(alone=knobs.nodes == 1)
        self._staying = (
            "__cluster_metadata",
            "__consumer_offsets",
            "__transaction_state",
            *(topic.name for topic in knobs.created_topics),
        )
        self.host: Host | None = None
        self._dead: Host | None = None
        self.node: Node | None = None
        self.incarnation = 0
        # How often it went down without a clean stop.
        self.crashes = 0
        # How often it compacted a log.
        self.compactions = 0
        self._loaded = False
        self.started = False
        self.stopping = False

    def _new_clock(self) -> SimClock:
        rng = self._streams.stream(f"clock {self.number}")
        clock = SimClock(self._loop, PPM + rng.randint(-self._knobs.clock_drift_ppm, self._knobs.clock_drift_ppm))
        clock.wall_offset_ms = rng.randint(-self._knobs.clock_skew_ms, self._knobs.clock_skew_ms)
        return clock

    def boot_if_down(self) -> None:
        if self.host is None:
            self.boot()

    def boot(self) -> None:
        if self._dead is not None:
            self._net.host_returned(self._dead)
            self._dead = None
        self.incarnation += 1
        life = f"{self.number}, life {self.incarnation}"
        self.host = host = Host(f"{self.name}.{self.incarnation}", self.address[0], self.clock.tempo_ppm)
        slow = self._streams.stream(f"slow calls {life}")
        ports = Ports(
            clock=self.clock,
            rng=SimRng(self._streams.stream(f"node {life}")),
            disk=self.disk.mount(),
            net=self._net.of(host),
            spawner=SimSpawner(self._loop, host, slow, self._knobs.slow_call_mean_us, self._failed, self._called),
        )
        self._loop.note(f"{self.name} boots for the {self.incarnation}. time")
        with self._loop.on(host):
            ports.spawner.spawn("start", self._start(ports))

    async def _start(self, ports: Ports) -> None:
        self.node = Node(self._config, ports)
        await self.node.start()
        self._loop.note(f"{self.name} serves")
        self.started = True

    def _called(self, call: Callable[..., Any], result: Any) -> None:
        if isinstance(result, Finished) and isinstance(result.result, Cleaned):
            self.compactions += 1
        elif getattr(call, "__func__", None) is LogDirectory.load:
            # The node has not led, followed or answered yet: the disk has exactly what recovery left.
            self._loaded = True
            recovered = self.recovery.loaded(self.disk.files(), self._leaving)
            directory: LogDirectory = getattr(call, "__self__")  # noqa: B009 mypy knows no bound methods
            for log in directory.logs.values():
                if log.topic_id is None:
                    # A power cut took its topic id, which its first sync would have kept: it will be put aside.
                    recovered[log.directory] = StoredLog(0, 0, [])
            self._on_loaded(self.incarnation, recovered)

    def _leaving(self, directory: str) -> bool:
        """Its topic is created and deleted during the run: the clients that do this check it."""
        return directory.rpartition("-")[0] not in self._staying

    def _failed(self, task: str, problem: BaseException) -> None:
        """A node may fail by itself, but only after a disk error."""
        if isinstance(problem, Violation | SimulationFailed) or not self.disk.disturbed:
            self._loop.call_exception_handler({"message": f"an exception escaped from {task}", "exception": problem})
        else:
            self._loop.note(f"{self.name} gives up: {problem}")
            if self.host is None:
                # Another of its tasks has failed before.
                return
            self.kill()
            self._loop.call_at_ns(self._loop.now_ns + SECOND_NS, self._loop.world, self.boot_if_down)

    # Five ways to go down. A later `boot` brings it up again.

    def lose_disk(self) -> None:
        """Loses power and disk. The new disk has another directory id."""
        self.lose_power()
        self._loop.note(f"{self.name} has lost its disk")
        faults = self.disk.faults
        self.disk = SimDisk(self.disk.rng, self.disk.knobs)
        self.disk.faults = faults
        self.directory_id = format_disk(self.disk, self.number, self._cluster_id, None, self.clock)
        self.recovery = RecoveryWatch(alone=False)

    def lose_power(self) -> None:
        self._loop.note(f"{self.name} loses its power")
        self.crashes += 1
        self.recovery.stopping(self.disk.files(), self._promised(), power_cut=True)
        host = self._gone()
        self.disk.power_cut()
        self._net.host_lost_power(host)

    def kill(self) -> None:
        if self.disk.sync_failed:
            # The page cache now shows what is not on disk and never will be: only a new boot of the machine helps.
            self.lose_power()
            return
        self._loop.note(f"{self.name} is killed")
        self.crashes += 1
        self.recovery.stopping(self.disk.files(), self._promised(), power_cut=False)
        host = self._gone()
        self.disk.kill()
        self._net.host_killed(host)

    async def stop_cleanly(self, *, then_lose_power: bool) -> None:
        """After a clean stop everything is safe, whatever the topic's settings."""
        host, node = self.host, self.node
        if host is None or node is None or not self.started or self.stopping:
            return
        self.stopping = True
        with self._loop.on(host):
            stopping = self._loop.create_task(node.stop(), name="stop")
        ends_at = self._loop.time() + STOPPING_S
        while not stopping.done():
            if not host.alive:
                return
            if host.paused or self._net.walls:
                ends_at = self._loop.time() + STOPPING_S
            if self._loop.time() > ends_at:
                raise Violation(f"V2 {self.name} was asked to stop and did not")
            await asyncio.sleep(0.01)
        if not host.alive:
            # It was killed just after it had stopped.
            return
        if (problem := stopping.exception()) is not None:
            self._failed("stop", problem)
            return
        power_cut = then_lose_power or self.disk.sync_failed
        promised = None
        if self.disk.disturbed:
            promised = self._promised()
            self.crashes += 1
        self.recovery.stopping(self.disk.files(), promised, power_cut=power_cut)
        self._loop.note(f"{self.name} stopped cleanly")
        self._gone()
        if power_cut:
            self.disk.power_cut()
        else:
            self.disk.kill()
        self._net.host_killed(host)

    def _promised(self) -> dict[str, int]:
        """By directory: up to where each log believes that it is durable."""
        if self.node is None or not self._loaded:
            return {}
        return {log.directory: log.recovery_point for log in logs_of(self.node)}

    def cut_at_operation(self, count: int, go_down: Callable[[], None]) -> None:
        """Goes down before the `count`th operation from now that changes the disk."""
        mounted = self.disk.mounted
        if mounted is None:
            return
        target = mounted.operations + count

        def perhaps(_what: str) -> None:
            # Not while a checker reads its logs and rebuilds an index.
            if mounted.operations >= target and self._loop.current is self.host:
                go_down()

        mounted.before_change = perhaps

    def _gone(self) -> Host:
        host = self.host
        if host is None:
            raise RuntimeError(f"{self.name} is down already")
        self._loop.cut(host)
        self._dead = host
        self.host = self.node = None
        self.started = self._loaded = self.stopping = False
        return host
