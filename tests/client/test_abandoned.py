"""Clients that are still open when their cluster is gone."""

from __future__ import annotations

import pytest

from odradek.client.abandoned import end_all, when_abandoned


class Client:
    pass


def test_end_all_ends_every_client_even_when_some_fail() -> None:
    ended: list[int] = []

    def end(number: int) -> None:
        ended.append(number)
        if number != 1:
            raise OSError(f"client {number} is stuck")

    clients = [Client() for _ in range(3)]
    for number, client in enumerate(clients):
        when_abandoned(client, "test-abandoned:1", lambda number=number: end(number))
    with (
        pytest.warns(ResourceWarning, match="unclosed Client") as warned,
        pytest.raises(ExceptionGroup, match="2 clients of test-abandoned:1 could not be ended") as failed,
    ):
        end_all("test-abandoned:1")
    assert [str(error) for error in failed.value.exceptions] == ["client 0 is stuck", "client 2 is stuck"]
    assert (ended, len(warned)) == ([0, 1, 2], 3)


def test_end_all_reports_failures_even_when_warnings_are_errors() -> None:
    """As in a test run with `-W error`."""

    def stuck() -> None:
        raise OSError("stuck")

    client = Client()
    when_abandoned(client, "test-abandoned:2", stuck)
    with pytest.raises(ExceptionGroup, match="1 client of") as failed:
        end_all("test-abandoned:2")
    assert isinstance(failed.value.__context__, ResourceWarning)
