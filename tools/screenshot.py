"""`make screenshot`: runs the trucking demo, opens its page in Chromium, and saves a screenshot as docs/trucking.png.

docs/trucking-dark.png shows the same moment in dark mode.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.chromium import Chromium  # noqa: E402 (the browser lives with the tests)

WIDTH, HEIGHT, SCALE = 1280, 800, 1.25
START_TIMEOUT_S = 240.0
# Take the screenshot when everything runs and has caught up, and there are alerts.
WORTH_A_PICTURE = """
document.documentElement.dataset.live === "yes"
  && parseFloat(document.getElementById("app-behind").textContent) < 3
  && document.querySelectorAll("#alerts li:not(.empty)").length >= 6
  && document.querySelectorAll("#map .truck.violating").length >= 4
"""


def main() -> None:
    command = [Path(sys.executable).parent / "odradek", "demo", "trucking", "--port", "0", "--page-port", "0"]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 (our own command line)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # and the demo with it
    try:
        _take(_page_of(demo))
    finally:
        demo.terminate()
        demo.wait()


def _page_of(demo: subprocess.Popen[str]) -> str:
    for line in demo.stdout or ():
        print(line, end="", flush=True)  # noqa: T201 (it takes a minute: whoever waits may read along)
        if "live" in line and (url := re.search(r"http://\S+", line)):
            return url[0]
    sys.exit("the demo ended before it was live")


def _take(url: str) -> None:
    with Chromium(WIDTH, HEIGHT, scale=SCALE) as browser:
        browser.open(url)
        browser.wait_for(WORTH_A_PICTURE, START_TIMEOUT_S)
        browser.screenshot(ROOT / "docs" / "trucking.png")
        browser.prefer(dark=True)
        browser.screenshot(ROOT / "docs" / "trucking-dark.png")
        if browser.problems:
            sys.exit(f"the page reported errors: {browser.problems}")


main()
