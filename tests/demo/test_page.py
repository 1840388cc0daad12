"""The live page: over HTTP, and in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

from odradek.demo.trucking import topics
from odradek.demo.trucking.fleet import Fleet
from odradek.demo.trucking.page import Buttons, Page
from odradek.demo.trucking.page_state import ChainState, PageState, PartState
from support.chromium import Chromium, installed
from support.onlooker import eventually

START_MS = 1_767_225_600_000
ALERT = {
    "driverId": 16,
    "driverName": "Greta Sandoz",
    "window_start": "2026-01-01T00:00:00.000Z",
    "window_end": "2026-01-01T00:00:10.000Z",
    "violations": 7,
    "kinds": ["Overspeed"],
    "alert": "High speed",
}


class Shown:
    """A page with a fleet on it that moves when the test says so."""

    def __init__(self) -> None:
        self.pressed: list[object] = []
        self._fleet = Fleet(seed=1, start_ms=START_MS)
        self._second = 0
        buttons = Buttons(
            kill={"broker": lambda: self.pressed.append("broker"), "spark": lambda: self.pressed.append("spark")},
            change_driver=self._change,
        )
        self.page = Page(PageState(), buttons, 0)
        self.spark("alive")

    def _change(self, driver: int) -> None:
        self._fleet.change_driver(driver)
        self.pressed.append(driver)

    def spark(self, state: str) -> None:
        names = {"broker": "alive", "simulator": "alive", "spark": state}
        parts = tuple(PartState(name=name, state=said, detail="", progress=0.4) for name, said in names.items())
        self.page.tell(lambda page: page.tell_parts(parts))

    def land(self, rows: int, trail: dict[str, object] | None) -> None:
        states = {"drivers-capture": "RUNNING", "alerts-table": "FAILED", "alerts-lake": "RUNNING"}
        chain = ChainState(
            database="SQLite",
            drivers=30,
            changes=1,
            connectors=states,
            table_rows=rows,
            lake_rows=rows - 1,
            lake_files=2,
            trail=trail,
        )
        self.page.tell(lambda page: page.tell_chain(chain))

    def drive(self, seconds: int) -> None:
        for _ in range(seconds):
            self._second += 1
            records = self._fleet.step(START_MS + self._second * 1000)
            for record in records:
                self.see(record.topic, record.value)
            self.page.tell(lambda page: page.tick(float(self._second)))
        self.page.publish()

    def see(self, topic: str, value: bytes) -> None:
        self.page.tell(lambda page: page.see(topic, value, {}))


@pytest.fixture
def shown() -> Iterator[Shown]:
    shown = Shown()
    with shown.page.server:
        yield shown


@pytest.fixture
def browser() -> Iterator[Chromium]:
    if installed() is None:
        pytest.skip("no Chromium here: apt install chromium")
    with Chromium(1280, 800) as chromium:
        yield chromium


@pytest.fixture
def client(shown: Shown) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=shown.page.server.url, timeout=60) as client:
        yield client


def test_the_buttons_reach_the_demo_and_other_sites_do_not(shown, client):
    assert client.post("/kill/spark").status_code == 204
    assert client.post("/drivers/12/change").status_code == 204
    assert client.post("/drivers/9999/change").status_code == 404
    assert client.post("/kill/moon").json()["why"] == "there are broker, spark"
    assert client.post("/kill/broker", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert client.get("/kill/broker").status_code == 404
    assert shown.pressed == ["spark", 12]


def test_everything_the_page_needs_comes_from_here(client):
    for path in (
        "/",
        "/page.js",
        "/map.js",
        "/panels.js",
        "/chain.js",
        "/types.js",
        "/page.css",
        "/icon.svg",
        "/map.json",
    ):
        answer = client.get(path)
        assert answer.status_code == 200
        assert "http" not in answer.text.replace("http://www.w3.org/2000/svg", "")


def behind(shown: Shown, seconds: float | None) -> None:
    told = None if seconds is None else {topics.POSITIONS: seconds, topics.SPEEDS: 0.0}
    shown.page.tell(lambda page: page.tell_behind(told))
    shown.drive(1)


@pytest.mark.parametrize(
    ("seconds", "said", "level", "colour"),
    [(2.9, "2.9", "fine", "--good"), (3.0, "3.0", "slow", "--wait"), (1234.0, "1,234", "behind", "--bad")],
)
def test_the_page_shows_how_far_behind_the_application_is(shown, browser, seconds, said, level, colour):
    behind(shown, None)
    browser.open(shown.page.server.url)
    browser.wait_for("document.querySelector('#gauge-behind b')?.textContent === '-'")
    assert browser.evaluate("document.getElementById('app-behind').textContent") == "nothing processed yet"
    behind(shown, seconds)
    browser.wait_for(f"document.querySelector('#gauge-behind b').textContent === '{said}'")
    assert browser.evaluate("document.getElementById('app-behind').textContent") == f"{said} s behind"
    for place in ("#app-behind", "#gauge-behind b"):
        used = f"getComputedStyle(document.querySelector('{place}')).color"
        wanted = (
            f"Object.assign(document.body.appendChild(document.createElement('i')), {{style: 'color:var({colour})'}})"
        )
        assert browser.evaluate(used) == browser.evaluate(f"getComputedStyle({wanted}).color"), (place, level)
    assert browser.evaluate("document.querySelector('.topic .fine').textContent").endswith("s behind")
    assert browser.problems == []


def test_the_page_in_a_browser(shown, browser):
    shown.drive(5)
    browser.open(shown.page.server.url)
    browser.wait_for("document.querySelectorAll('#map .truck').length === 30")
    assert browser.evaluate("document.querySelectorAll('#drivers tr').length") == 30
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert browser.evaluate("document.documentElement.scrollHeight <= innerHeight")

    place = "document.querySelector('#map .truck').getAttribute('transform')"
    before = browser.evaluate(place)
    shown.drive(1)
    browser.wait_for(f"{place} !== {json.dumps(before)}")

    statistics = {"driverId": 16, "events": 70, "violations": 31, "overspeed": 31}
    shown.see(topics.STATISTICS, json.dumps(statistics).encode())
    shown.see(topics.ALERTS, json.dumps(ALERT).encode())
    shown.drive(1)
    browser.wait_for("document.querySelector('#alerts li')?.textContent.includes('Greta Sandoz')")
    assert "High speed, 7 violations" in browser.evaluate("document.querySelector('#alerts li').textContent")
    assert browser.evaluate("document.querySelectorAll('#map .truck.alerted').length") == 1
    assert browser.evaluate("document.querySelector('.bar-row').textContent") == "Greta Sandoz31"
    assert browser.evaluate("document.querySelector('#drivers tr').textContent").endswith("7031")

    browser.evaluate("document.querySelector('[data-kill=spark]').click()")
    browser.wait_for("document.querySelector('[data-kill=spark]').disabled")
    shown.spark("restarting")
    shown.drive(1)
    browser.wait_for("document.querySelector('#parts li.restarting') !== null")
    assert browser.evaluate("document.documentElement.dataset.live") == "no"
    shown.land(9, None)
    shown.drive(1)
    browser.wait_for("!document.getElementById('change-driver').disabled")
    browser.evaluate("document.getElementById('change-driver').click()")
    browser.evaluate("document.querySelector('#map .truck').dispatchEvent(new Event('pointerenter'))")
    browser.wait_for("!document.getElementById('popup').hidden")
    eventually(lambda: len(shown.pressed) == 2, "the driver is not changed")
    shown.drive(1)
    browser.wait_for("document.querySelector('#drivers tr.changed') !== null")
    assert shown.pressed[0] == "spark"
    assert browser.problems == []


def test_the_page_shows_the_chain_and_the_way_of_a_change(shown, browser):
    browser.open(shown.page.server.url)
    shown.land(9, None)
    shown.drive(1)
    browser.wait_for("document.getElementById('place-table').textContent.includes('9 rows')")
    assert browser.evaluate("document.getElementById('place-drivers').textContent").startswith("SQLite driver30 rows")
    assert "8 rows, 2 files" in browser.evaluate("document.getElementById('place-lake').textContent")
    assert browser.evaluate("document.querySelector('#place-table .connector').className") == "connector stopped"
    assert browser.evaluate("document.getElementById('change-driver').disabled"), "nothing is counted yet"

    row = {"id": 16, "driverName": "Greta Sandoz", "certified": False, "wagePlan": "hours"}
    reached = {"committed": 0.04, topics.DRIVERS: 0.31, topics.ENRICHED: 1.26, topics.ALERTS: None}
    shown.land(9, {"row": row, "reached": reached})
    shown.drive(1)
    said = "document.getElementById('trail-said').textContent"
    browser.wait_for(f"{said} === 'Greta Sandoz is now paid by hours, not certified'")
    steps = browser.evaluate("[...document.querySelectorAll('#trail-steps li')].map((li) => li.textContent)")
    assert steps == ["committed0.04 s", "captured0.31 s", "joined1.3 s", "in an alert"]
    assert browser.evaluate("document.querySelector('#trail-steps .next').textContent") == "in an alert"
    assert browser.problems == []
