"""Who may use the console, and what a page of another site cannot do to it."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import anyio.to_thread
import httpx
import pytest

from odradek.client.admin import Admin
from odradek.console import security
from odradek.console.security import PASSWORD_CHARS_MIN, Unprotected, is_own_path, require_password
from odradek.console.service import running
from odradek.console.settings import ConsoleSettings
from support.waiting import wait_until

PASSWORD = "correct horse"
HTML = {"accept": "text/html"}


@contextmanager
def console(bootstrap: str, **settings: object) -> Iterator[httpx.Client]:
    with (
        running(ConsoleSettings(bootstrap=bootstrap, port=0, **settings)) as (_, server),
        httpx.Client(base_url=server.url, timeout=60, headers=HTML) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def open_console(broker) -> Iterator[httpx.Client]:
    admin = Admin(broker.bootstrap_servers)
    admin.create_topic("guarded", 1)
    admin.set_committed("guarded", {("guarded", 0): 0})
    with console(broker.bootstrap_servers) as client:
        wait_until(lambda: "guarded" in client.get("/groups").text, "the console lists the group")
        yield client


def token_of(client: httpx.Client, path: str) -> str:
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', client.get(path).text)
    assert found, f"{path} has no form"
    return found[1]


def test_every_answer_forbids_scripts_of_others(open_console):
    for path in ("/", "/static/console.js", "/nowhere", "/healthz"):
        policy = open_console.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy


def test_pages_have_no_inline_scripts_and_styles_and_load_nothing_from_elsewhere(open_console):
    for path in ("/", "/groups", "/brokers", "/quorum", "/groups/guarded?tab=reset"):
        text = open_console.get(path).text
        assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son[a-z]+=|javascript:", text), path
        assert not re.search(r'(?:src|href|action)="(?:https?:)?//', text), path


def test_a_form_needs_the_token_of_the_session(open_console):
    token = token_of(open_console, "/groups/guarded?tab=reset")
    wrong = open_console.post("/groups/guarded", data={"action": "delete"})
    assert (wrong.status_code, "out of date" in wrong.text) == (403, True)
    other = httpx.post(
        f"{open_console.base_url}/groups/guarded", data={"action": "delete", "csrf": token}, headers=HTML
    )
    assert other.status_code == 403
    assert "guarded" in open_console.get("/groups").text


def test_pages_of_other_sites_change_nothing(open_console):
    token = token_of(open_console, "/groups/guarded?tab=reset")
    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "http://evil.example"}):
        answer = open_console.post("/groups/guarded", data={"action": "delete", "csrf": token}, headers=headers)
        assert answer.status_code == 403


def test_a_name_that_another_site_points_here_is_refused(open_console):
    assert open_console.get("/", headers={"host": "evil.example"}).status_code == 421


def test_the_page_after_a_form_is_one_of_this_console(open_console):
    answer = open_console.post("/look", data={"theme": "dark", "back": "//evil.example/"})
    assert answer.headers["location"] == "/"
    answer = open_console.post("/look", data={"theme": "dark", "refresh": "off", "back": "/groups?q=a"})
    assert answer.headers["location"] == "/groups?q=a"
    page = open_console.get("/").text
    assert 'data-theme="dark" data-refresh="off"' in page


@pytest.mark.parametrize(
    ("path", "prefix", "is_own"),
    [
        ("/groups?q=1", "", True),
        ("/console/groups", "/console", True),
        ("/groups", "/console", False),
        ("//evil.example", "", False),
        ("/\\evil.example", "", False),
        ("https://evil.example", "", False),
        ("/a\r\nset-cookie: x", "", False),
        ("", "", False),
    ],
)
def test_own_paths(path, prefix, is_own):
    assert is_own_path(path, prefix) is is_own


def test_other_addresses_than_loopback_need_a_password():
    require_password(ConsoleSettings(bootstrap="x"))
    require_password(ConsoleSettings(bootstrap="x", names=("localhost",)))
    require_password(ConsoleSettings(bootstrap="x", names=("console.example",), no_password=True))
    require_password(ConsoleSettings(bootstrap="x", host="0.0.0.0", password=PASSWORD))
    for settings in (
        ConsoleSettings(bootstrap="x", host="0.0.0.0"),
        ConsoleSettings(bootstrap="x", host="192.0.2.1"),
        ConsoleSettings(bootstrap="x", host="::"),
        ConsoleSettings(bootstrap="x", host="0.0.0.0", no_password=True),
        ConsoleSettings(bootstrap="x", names=("localhost", "console.example")),
        ConsoleSettings(bootstrap="x", password="x" * (PASSWORD_CHARS_MIN - 1)),
    ):
        with pytest.raises(Unprotected):
            require_password(settings)


def test_the_password_opens_the_console_for_one_browser(broker):
    with console(broker.bootstrap_servers, password=PASSWORD) as client:
        assert client.get("/").headers["location"] == "/sign-in"
        assert client.get("/groups", headers={"accept": "application/json"}).status_code == 401
        assert client.get("/events").status_code in (303, 401)
        assert client.get("/static/console.css").status_code == 200
        assert "This is not the password" in client.post("/sign-in", data={"password": "wrong horse"}).text
        client.cookies.set("odradek-signed-in", f"{2**40}.{'0' * 64}")
        assert client.get("/").status_code == 303
        client.cookies.clear()
        assert client.post("/sign-in", data={"password": PASSWORD}).headers["location"] == "/"
        assert client.get("/").status_code == 200
        assert httpx.get(f"{client.base_url}", headers=HTML).status_code == 303
        copied = dict(client.cookies)
        client.post("/sign-out")
        assert client.get("/").status_code == 303
        assert httpx.get(f"{client.base_url}", headers=HTML, cookies=copied).status_code == 303
        assert client.post("/sign-in", content=b"password=" + b"x" * 5000).status_code == 413


def test_many_guesses_at_once_are_refused_and_hold_no_threads(broker, monkeypatch):
    waiting, release = [], threading.Event()

    async def pause(_seconds: float) -> None:
        waiting.append(1)
        await anyio.to_thread.run_sync(release.wait, 60)

    monkeypatch.setattr(security, "pause", pause)
    with console(broker.bootstrap_servers, password=PASSWORD) as client, ThreadPoolExecutor(40) as guessing:
        monkeypatch.setattr(security, "GUESSES_WAITING_MAX", 3)
        guesses = [guessing.submit(client.post, "/sign-in", data={"password": PASSWORD}) for _ in range(12)]
        wait_until(lambda: sum(each.done() for each in guesses) == 9, "most guesses are refused")
        assert {each.result().status_code for each in guesses if each.done()} == {429}
        assert client.get("/sign-in").status_code == 200
        assert len(waiting) == 1
        release.set()
        assert sorted(each.result(60).status_code for each in guesses) == [303] * 3 + [429] * 9


def test_a_read_only_console_shows_everything_and_changes_nothing(broker, open_console):
    with console(broker.bootstrap_servers, read_only=True) as client:
        wait_until(lambda: "guarded" in client.get("/groups").text, "the console lists the group")
        page = client.get("/groups/guarded?tab=reset&to=earliest").text
        assert "read-only" in page
        answer = client.post(
            "/groups/guarded", data={"action": "delete", "csrf": token_of(client, "/groups/guarded?tab=reset")}
        )
        assert (answer.status_code, "read-only" in answer.text) == (403, True)
        assert ">Edit</a>" not in client.get("/brokers/1?tab=configs").text


def test_a_prefix_moves_all_addresses(broker):
    with console(broker.bootstrap_servers, prefix="/console") as client:
        assert client.get("/").status_code == 404
        page = client.get("/console/").text
        assert not re.search(r'(?:href|src|action)="/(?!console/)', page)
        assert client.get("/console/static/console.css").status_code == 200
        assert client.get("/console/groups").status_code == 200


def test_large_forms_are_refused(open_console):
    answer = open_console.post("/groups/guarded", content=b"a=" + b"x" * (5 << 20))
    assert answer.status_code == 413
