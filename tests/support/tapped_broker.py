"""A broker behind a wiretap, and the list of API versions that each client used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.broker_process import BrokerProcess, free_port
from support.wiretap import Wiretap

# client -> (API, version)
SPOKEN: dict[str, set[tuple[str, int]]] = {}


@contextmanager
def tapped(client: str, data: Path, **config: str) -> Iterator[str]:
    """The address of the wiretap. The API versions that pass are listed under `client`."""
    tap_port = free_port()
    process = BrokerProcess(data, **config)
    process.config["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{tap_port}"
    with process, Wiretap(tap_port, process.port) as tap:
        yield tap.bootstrap
        SPOKEN.setdefault(client, set()).update(tap.spoken())


def listed() -> list[str]:
    """A line for each client."""
    return [f"{client}: {_versions(spoken)}" for client, spoken in sorted(SPOKEN.items())]


def _versions(spoken: set[tuple[str, int]]) -> str:
    versions: dict[str, list[str]] = {}
    for api, version in sorted(spoken):
        versions.setdefault(api, []).append(str(version))
    return ", ".join(f"{api} {'/'.join(numbers)}" for api, numbers in versions.items())
