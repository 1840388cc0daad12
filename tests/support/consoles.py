"""A console that runs in the test's process, and its HTTP as a program sees it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from odradek.console.frame import Console

HTML = {"accept": "text/html"}
PATIENCE_S = 60.0


@dataclass
class Running:
    console: Console
    url: str

    def get(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(self.url + path, headers=headers, timeout=PATIENCE_S)

    def page(self, path: str) -> str:
        answer = httpx.get(self.url + path, headers=HTML, timeout=PATIENCE_S)
        assert answer.status_code == 200, answer.text
        return answer.text

    def post(self, path: str, form: str = "/create-topic", **fields: str) -> httpx.Response:
        """Sends a form as a browser does: `form` is a page with the token. Follows the redirect after an action."""
        with httpx.Client(base_url=self.url, headers=HTML, timeout=PATIENCE_S, follow_redirects=True) as client:
            token = re.search('name="csrf" value="([^"]+)"', client.get(form).text)
            assert token is not None
            return client.post(path, data={"csrf": token[1], **fields})

    def events(self, path: str, **params: str) -> list[tuple[str, Any]]:
        """All events of a stream that ends by itself."""
        with httpx.stream("GET", self.url + path, params=params, timeout=PATIENCE_S) as answer:
            assert answer.status_code == 200
            return list(events_of(answer))

    def found(self, path: str, **params: str) -> list[Mapping[str, Any]]:
        """The rows of a search that succeeds."""
        events = self.events(path, **params)
        assert not [told for name, told in events if name == "problem"], events
        return [row for name, rows in events if name == "messages" for row in rows]


def events_of(answer: httpx.Response) -> Iterator[tuple[str, Any]]:
    name = ""
    for line in answer.iter_lines():
        kind, _, text = line.partition(": ")
        if kind == "event":
            name = text
        elif kind == "data":
            yield name, json.loads(text)
