"""Receivers of alerts: a webhook, or a command. Both get the JSON of Prometheus' Alertmanager (webhook version 4)."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import threading
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from odradek.monitor.alerts.alerts import Change, Notice

NEVER = "0001-01-01T00:00:00Z"
ERROR_BYTES_MAX = 500
ERROR_WITHIN_S = 1.0


class NotDelivered(Exception):
    """The message must be sent again."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """urllib would follow a redirect with a GET, without the message."""

    def redirect_request(self, *_: object) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirect)


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: int = 10

    def deliver(self, receiver: str, notice: Notice) -> None:
        """Any answer of class 2xx counts as delivered."""
        headers = {"Content-Type": "application/json", **self.headers}
        request = urllib.request.Request(  # noqa: S310 - settings allow only http and https
            self.url, data=body(receiver, notice), headers=headers, method="POST"
        )
        try:
            _opener.open(request, timeout=self.timeout_s).close()
        except (
            OSError,
            http.client.HTTPException,
        ) as failed:  # OSError: also statuses that are no success, and timeouts
            raise NotDelivered(f"{self.url}: {failed}") from failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    run: tuple[str, ...]
    timeout_s: int = 30

    def deliver(self, receiver: str, notice: Notice) -> None:
        """The message is on standard input. Exit code 0 counts as delivered."""
        about = {
            "ODRADEK_ALERT": notice.alert.key.rule,
            "ODRADEK_ALERT_STATE": notice.change.value,
            "ODRADEK_ALERT_ID": notice.id,
        }
        read_end, write_end = os.pipe()
        errors = _Errors(read_end)
        errors.start()
        try:
            done = subprocess.run(  # noqa: S603 - the command is that of the settings
                self.run,
                input=body(receiver, notice),
                stdout=subprocess.DEVNULL,
                stderr=write_end,
                timeout=self.timeout_s,
                check=False,
                env={**os.environ, **about},
            )
        except (OSError, subprocess.TimeoutExpired) as failed:
            raise NotDelivered(f"{self.run[0]}: {failed}") from failed
        finally:
            os.close(write_end)
        if done.returncode:
            raise NotDelivered(f"{self.run[0]} exited with {done.returncode}: {errors.last()}")


class _Errors(threading.Thread):
    """Reads the standard error of a command until all its processes have closed it, and keeps the end.

    A child that the command leaves behind may keep it open: deliveries do not wait for it, and it may write more.
    """

    def __init__(self, read_end: int) -> None:
        super().__init__(name="odradek-alert-command", daemon=True)
        self._read_end = read_end
        self._tail = b""

    def run(self) -> None:
        with open(self._read_end, "rb", buffering=0) as pipe:
            while part := pipe.read(4096):
                self._tail = (self._tail + part)[-ERROR_BYTES_MAX:]

    def last(self) -> str:
        """What it has read once the pipe is closed or a moment has passed."""
        self.join(ERROR_WITHIN_S)
        return self._tail.decode(errors="replace").strip()


Receiver = Webhook | Command


def body(receiver: str, notice: Notice) -> bytes:
    alert = notice.alert
    is_open = notice.change is Change.OPENED
    status = "firing" if is_open else "resolved"
    labels = {**dict(alert.key.labels), "alertname": alert.key.rule, "source": alert.key.source}
    annotations = {
        "summary": f"{alert.key.rule}: {alert.condition}" if is_open else f"{alert.key.rule}: closed",
        "value": "" if notice.value is None else f"{notice.value:g}",
    }
    told = {
        "version": "4",
        "groupKey": f"{{}}:{{alertname={json.dumps(alert.key.rule)}}}",
        "truncatedAlerts": 0,
        "status": status,
        "receiver": receiver,
        "groupLabels": {"alertname": alert.key.rule},
        "commonLabels": labels,
        "commonAnnotations": annotations,
        "externalURL": "",
        "alerts": [
            {
                "status": status,
                "labels": labels,
                "annotations": annotations,
                "startsAt": _time(alert.opened_ms),
                "endsAt": NEVER if is_open else _time(notice.at_ms),
                "generatorURL": "",
                "fingerprint": notice.id.rpartition("/")[0],
            }
        ],
    }
    return json.dumps(told).encode()


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
