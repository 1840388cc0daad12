"""Requests to the brokers of a cluster, over kept connections."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from odradek.client.addresses import Address, parse_addresses
from odradek.client.wire import NoAnswer, R, Unreachable, Wire
from odradek.protocol.schema import Message

CLIENT_ID = "odradek-console"
ANSWER_S = 4.0
# A broker that takes longer for its smallest answer is as good as gone.
KNOCK_S = 2.0
AT_ONCE_MAX = 16

T = TypeVar("T")


class Cluster:
    """Any thread may ask. Knows the addresses of brokers from `learn`; before that, those of the bootstrap."""

    def __init__(self, bootstrap: str, *, within_s: float = ANSWER_S) -> None:
        self.bootstrap = bootstrap
        self._within_s = within_s
        self._seeds = parse_addresses(bootstrap)
        self._brokers: dict[int, Address] = {}
        self._wires: dict[Address, Wire] = {}
        # Those that gave no answer to the last knock are asked last.
        self._silent: set[Address | None] = set()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(AT_ONCE_MAX, thread_name_prefix="odradek-console-ask")

    def learn(self, brokers: dict[int, Address]) -> None:
        with self._lock:
            self._brokers = dict(brokers)
            gone = self._wires.keys() - {*brokers.values(), *self._seeds}
            left = [self._wires.pop(address) for address in gone]
        for wire in left:
            wire.close()

    def anyone(self, request: Message, response: type[R], *, newest: int | None = None) -> R:
        """The answer of the first broker that gives one. Raises NoAnswer."""
        failures: list[NoAnswer] = []
        for wire in self._all():
            try:
                return wire.ask(request, response, newest=newest)
            except NoAnswer as failure:
                failures.append(failure)
        # An error after connecting says more than a refused connection.
        raise min(failures, key=lambda failure: isinstance(failure, Unreachable))

    def at(self, broker: int, request: Message, response: type[R], *, newest: int | None = None) -> R:
        with self._lock:
            address = self._brokers.get(broker)
        if address is None:
            raise Unreachable(f"no broker {broker} is registered")
        return self._wire(address).ask(request, response, newest=newest)

    def knock(self, broker: int) -> str | None:
        """Why the broker does not answer; None when it does."""
        with self._lock:
            address = self._brokers.get(broker)
        try:
            if address is not None:
                self._wire(address).knock(KNOCK_S)
        except NoAnswer as failure:
            self._silent.add(address)
            return str(failure)
        self._silent.discard(address)
        return None

    def each(self, brokers: Iterable[int], ask: Callable[[int], T]) -> dict[int, T | NoAnswer]:
        """Asks several brokers at once, because a silent one takes until the timeout."""

        def answer(broker: int) -> T | NoAnswer:
            try:
                return ask(broker)
            except NoAnswer as failure:
                return failure

        wanted = list(brokers)
        return dict(zip(wanted, self._pool.map(answer, wanted), strict=True))

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            wires, self._wires = list(self._wires.values()), {}
        for wire in wires:
            wire.close()

    def _all(self) -> list[Wire]:
        with self._lock:
            known = dict.fromkeys([*self._brokers.values(), *self._seeds])
        addresses = sorted(known, key=lambda address: address in self._silent)
        return [self._wire(address) for address in addresses]

    def _wire(self, address: Address) -> Wire:
        with self._lock:
            if address not in self._wires:
                self._wires[address] = Wire(address, CLIENT_ID, within_s=self._within_s)
            return self._wires[address]
