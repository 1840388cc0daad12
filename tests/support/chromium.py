"""A real browser, driven through a pair of pipes in Chromium's DevTools protocol: no driver, no package."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-default-apps", "--hide-scrollbars", "--mute-audio",
)  # fmt: skip

# Where the browser expects its pipes. The copies have much higher numbers, so that dup2 overwrites neither too early.
ON_DESCRIPTORS_3_AND_4 = """
import fcntl, os, sys
reading, writing = (fcntl.fcntl(int(given), fcntl.F_DUPFD, 20) for given in sys.argv[1:3])
os.dup2(reading, 3)
os.dup2(writing, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def installed() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


class Chromium:
    """One browser with one tab, for the duration of a `with` block."""

    def __init__(self, width: int, height: int, *, dark: bool = False, scale: float = 1.0) -> None:
        program = installed()
        if program is None:
            raise FileNotFoundError(f"none of {', '.join(NAMES)} is installed")
        self._profile = tempfile.mkdtemp(prefix="odradek-browser-")
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        command = [
            sys.executable, "-c", ON_DESCRIPTORS_3_AND_4, str(to_browser), str(from_browser), program, *QUIET,
            "--remote-debugging-pipe", f"--user-data-dir={self._profile}", f"--window-size={width},{height}",
            "about:blank",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            command,
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._numbers = itertools.count(1)
        self._received = bytearray()
        self.problems: list[str] = []  # exceptions and errors of the page
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 640,
        )
        self.prefer(dark=dark)

    def prefer(self, *, dark: bool) -> None:
        theme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._call("Emulation.setEmulatedMedia", features=theme)

    def open(self, url: str) -> None:
        self._call("Page.navigate", url=url)
        self.wait_for("location.href !== 'about:blank' && document.readyState === 'complete'")

    def evaluate(self, expression: str) -> Any:
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails'].get('exception', {}).get('description')}")
        return answer["result"].get("value")

    def wait_for(self, expression: str, timeout_s: float = 60.0) -> Any:
        deadline = time.monotonic() + timeout_s
        while not (value := self.evaluate(expression)):
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{expression} is still {value!r} after {timeout_s:.0f} s; problems: {self.problems}"
                )
            time.sleep(0.05)
        return value

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"]))

    def _call(self, method: str, **parameters: object) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if hasattr(self, "_session"):
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._received:
            piece = os.read(self._in, 1 << 20)
            if not piece:
                raise RuntimeError("the browser ended")
            self._received += piece
        frame, _, rest = self._received.partition(b"\0")
        self._received = bytearray(rest)
        message: dict[str, Any] = json.loads(frame)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        if message.get("method") == "Runtime.exceptionThrown":
            self.problems.append(str(message["params"]["exceptionDetails"].get("exception", {}).get("description")))
        elif message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
            self.problems.append(message["params"]["entry"]["text"])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._out)
        os.close(self._in)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        shutil.rmtree(self._profile, ignore_errors=True)
