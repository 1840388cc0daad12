"""Whether an address accepts connections."""

from __future__ import annotations

import socket
import threading

import pytest

from odradek.client import knocking
from odradek.client.addresses import Address
from odradek.client.knocking import refusal, refusals
from odradek.client.wire import Unreachable, connected

LIVE, SILENT, OTHER = Address("live", 1), Address("silent", 1), Address("other", 1)


def test_refusal_has_the_reason_and_is_none_for_an_open_port() -> None:
    assert refusal(Address("127.0.0.1", 1)) == "Connection refused"
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert refusal(Address(*server.getsockname())) is None


def test_a_host_that_is_no_host_name_is_a_refusal() -> None:
    """Brokers advertise any text."""
    assert "label" in str(refusal(Address("a..b", 9092)))
    with pytest.raises(Unreachable, match="label"):
        connected(Address("a..b", 9092))


def test_refusals_are_in_the_order_of_the_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    later = threading.Event()

    def refused(address: Address) -> str:
        """The first address is refused last."""
        if address == LIVE:
            assert later.wait(60)
        else:
            later.set()
        return f"not {address.host}"

    monkeypatch.setattr(knocking, "refusal", refused)
    assert list(refusals([LIVE, OTHER]).items()) == [(LIVE, "not live"), (OTHER, "not other")]


@pytest.mark.parametrize("addresses", [[LIVE, SILENT, OTHER], [SILENT, OTHER, LIVE]], ids=["first", "last"])
def test_refusals_do_not_wait_for_silent_addresses_when_one_accepts(
    addresses: list[Address], monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()

    def silent(address: Address) -> str | None:
        if address == LIVE:
            return None
        over.wait()
        return "timed out"

    monkeypatch.setattr(knocking, "refusal", silent)
    try:
        assert refusals(addresses) == {}
    finally:
        over.set()
