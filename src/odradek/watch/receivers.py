"""Receivers of alerts: a webhook, or a command. Both get the JSON of Prometheus' Alertmanager (webhook version 4)."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from odradek.monitor.alerts.alerts import Change, Notice

NEVER = "0001-01-01T00:00:00Z"


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
        try:
            subprocess.run(  # noqa: S603 - the command is that of the settings
                self.run,
                input=body(receiver, notice),
                capture_output=True,
                timeout=self.timeout_s,
                check=True,
                env={**os.environ, **about},
            )
        except subprocess.CalledProcessError as failed:
            said = failed.stderr.decode(errors="replace").strip()[-500:]
            raise NotDelivered(f"{self.run[0]} exited with {failed.returncode}: {said}") from failed
        except (OSError, subprocess.TimeoutExpired) as failed:
            raise NotDelivered(f"{self.run[0]}: {failed}") from failed


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
