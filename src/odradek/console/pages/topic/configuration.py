"""The tab of the configuration: values with their source, changed one at a time."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from odradek.console.configs import Config, Kind, change_config, read_configs
from odradek.console.frame import Refused
from odradek.console.pages.topic.layout import TopicPages
from odradek.console.topic_configs import TOPIC_SOURCE, grouped, readable
from odradek.web.errors import HttpError

VALUE_CHARS_MAX = 30_000


class Configuration:
    def __init__(self, pages: TopicPages) -> None:
        self._pages = pages

    def page(self, request: Request) -> Response:
        return self._shown(request, "", "", "")

    async def change(self, request: Request) -> Response:
        fields = await self._pages.console.form(request)
        return await run_in_threadpool(self._change, request, fields)

    def _change(self, request: Request, fields: Mapping[str, str]) -> Response:
        console, topic = self._pages.console, self._pages.topic(request)
        name = fields.get("name", "")
        value = None if fields.get("action") == "reset" else fields.get("value", "").strip()
        try:
            _require_short(name, value or "")
            change_config(console.cluster, Kind.TOPIC, topic.name, name, value)
        except Refused as refused:
            return self._shown(request, name, value or "", str(refused), status=400)
        self._pages.configs.forget(topic.name)
        told = f"{name} has its default again." if value is None else f"{name} is now {value}."
        return console.done(told, console.to("/topics", topic.name, "configuration"))

    def _shown(self, request: Request, edited: str, typed: str, problem: str, status: int = 200) -> Response:
        """`edited` is the config whose change was refused, `typed` the value."""
        topic = self._pages.topic(request)
        try:
            configs = read_configs(self._pages.console.cluster, Kind.TOPIC, topic.name)
        except Refused as refused:
            raise HttpError(503, refused.what, refused.why) from None
        words = request.query_params.get("q", "").lower().split()
        own = request.query_params.get("show") == "own"
        kept = [each for each in configs if _is_kept(each, words, own=own)]
        return self._pages.tab(
            request,
            topic,
            "configuration",
            "topic_configuration.html",
            status=status,
            groups=grouped(kept),
            own_count=sum(map(_is_own, configs)),
            all_count=len(configs),
            show="own" if own else "all",
            q=request.query_params.get("q", ""),
            edited=edited,
            typed=typed,
            problem=problem,
            is_own=_is_own,
            readable=readable,
        )


def _require_short(name: str, value: str) -> None:
    """Raises Refused: a value that is cut would be another one."""
    if len(value) > VALUE_CHARS_MAX:
        why = f"the value has {len(value)} characters; at most {VALUE_CHARS_MAX} are allowed"
        raise Refused(f"{name[:100]} is not changed", why)


def _is_own(config: Config) -> bool:
    return config.source == TOPIC_SOURCE


def _is_kept(config: Config, words: list[str], *, own: bool) -> bool:
    text = f"{config.name} {config.value} {config.documentation}".lower()
    return (_is_own(config) or not own) and all(word in text for word in words)
