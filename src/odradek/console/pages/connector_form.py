"""Creating and editing a connector, with a form that its plug-in's declaration describes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from odradek.console.connectors.api import ACTION_S, PLUGINS_S, ConnectApi, Declined, Silent
from odradek.console.connectors.form import CLASS, NAME, BadLine, form_of, typed
from odradek.console.frame import Console, not_found
from odradek.console.pages.connector import api_of
from odradek.web.errors import HttpError

NAME_CHARS_MAX = 200
CREATE, EDIT = "/create-connector", "/edit-connector"


def routes(console: Console) -> Sequence[BaseRoute]:
    forms = _Forms(console)
    return [
        Route(CREATE, forms.creating),
        Route(CREATE, forms.create, methods=["POST"]),
        Route(EDIT, forms.editing),
        Route(EDIT, forms.edit, methods=["POST"]),
    ]


class _Forms:
    def __init__(self, console: Console) -> None:
        self._console = console

    # Creating

    def creating(self, request: Request) -> Response:
        said = request.query_params
        keys = list(self._console.connectors.apis)
        api = api_of(self._console, said.get("service") or keys[0])
        plugin = said.get("plugin", "")
        if plugin:
            return self._form(request, api, {CLASS: plugin}, "", with_errors=False)
        try:
            told = api.ask("GET", "connector-plugins", within_s=PLUGINS_S)
            plugins = [each for each in told if each.get("type") in ("source", "sink")]
        except (Silent, Declined) as failed:
            raise HttpError(503, "the plug-ins are not known", str(failed)) from None
        words = said.get("q", "").lower().split()
        found = [
            (str(each["class"]).rpartition(".")[2], str(each["class"]), str(each["type"]), str(each.get("version", "")))
            for each in plugins
            if all(word in f"{each['class']} {each['type']}".lower() for word in words)
        ]
        return self._console.page(
            request,
            "connector_plugins.html",
            title="Create a connector",
            api=api,
            services=keys,
            plugins=sorted(found, key=lambda each: each[0].lower()),
            q=said.get("q", ""),
        )

    async def create(self, request: Request) -> Response:
        fields = await self._console.form(request)
        return await run_in_threadpool(self._create, request, fields)

    def _create(self, request: Request, fields: Mapping[str, str]) -> Response:
        api = api_of(self._console, fields.get("service", ""))
        config, problem = self._typed(fields, {})
        if problem or not config.get(CLASS):
            return self._form(request, api, config, problem or "Choose a plug-in.", status=400)
        if not config.get(NAME):
            return self._form(request, api, config, "The connector needs a name.", status=400)
        return self._sent(request, api, config, fields, before="")

    # Editing

    def editing(self, request: Request) -> Response:
        said = request.query_params
        api = api_of(self._console, said.get("service", ""))
        config = self._stored(api, said.get("name", ""))
        return self._form(request, api, config, "", before=config[NAME], with_errors=True)

    async def edit(self, request: Request) -> Response:
        fields = await self._console.form(request)
        return await run_in_threadpool(self._edit, request, fields)

    def _edit(self, request: Request, fields: Mapping[str, str]) -> Response:
        api = api_of(self._console, fields.get("service", ""))
        stored = self._stored(api, fields.get(NAME, ""))
        config, problem = self._typed(fields, stored)
        if problem:
            return self._form(request, api, config, problem, before=stored[NAME], status=400)
        return self._sent(request, api, config, fields, before=stored[NAME])

    def _stored(self, api: ConnectApi, name: str) -> dict[str, str]:
        try:
            told = api.get("connectors", name, "config")
            return {NAME: name, CLASS: "", **{str(key): str(value) for key, value in told.items()}}
        except Declined as declined:
            if declined.status == 404:
                raise not_found("connector", name, "it was deleted, or its name is spelled differently") from None
            raise HttpError(503, f"connector {name} is not known", str(declined)) from None
        except (Silent, AttributeError) as failed:
            raise HttpError(503, f"connector {name} is not known", str(failed)) from None

    # Both

    def _typed(self, fields: Mapping[str, str], stored: Mapping[str, str]) -> tuple[dict[str, str], str]:
        try:
            return typed(fields, stored), ""
        except BadLine as wrong:
            left = {name: value for name, value in fields.items() if name != "more"}
            return typed(left, stored), f"More options: {wrong}."

    def _sent(
        self, request: Request, api: ConnectApi, config: dict[str, str], fields: Mapping[str, str], *, before: str
    ) -> Response:
        """Validates, then stores; or shows the form again, with the errors beside the fields."""
        name = config[NAME]
        try:
            form = form_of(api, config, with_errors=True)
            if form.errors:
                wrong = "1 option has" if form.errors == 1 else f"{form.errors} options have"
                problem = f"{name} is not stored: {wrong} an error."
                return self._form(request, api, config, problem, before=before, status=400)
            if fields.get("action") == "check":
                return self._form(request, api, config, "", before=before, told="No option has an error.")
            if before:
                api.ask("PUT", "connectors", before, "config", body=config, within_s=ACTION_S)
            else:
                api.ask("POST", "connectors", body={"name": name, "config": config}, within_s=ACTION_S)
        except (Silent, Declined) as refused:
            return self._form(request, api, config, f"{name} is not stored: {refused}", before=before, status=400)
        self._console.connectors.repaired(api, name)
        told = f"The config of {name} was stored." if before else f"Connector {name} was created."
        return self._console.done(told, self._console.to("/connect", api.key, name))

    def _form(
        self,
        request: Request,
        api: ConnectApi,
        config: Mapping[str, str],
        problem: str,
        *,
        before: str = "",
        told: str = "",
        with_errors: bool = True,
        status: int = 200,
    ) -> Response:
        """`before` is the name of the connector that is edited; empty for a new one."""
        try:
            form = form_of(api, config, with_errors=with_errors)
        except (Silent, Declined, KeyError) as failed:
            raise HttpError(503, "the options are not known", str(failed)) from None
        model: dict[str, Any] = {
            "api": api,
            "form": form,
            "name": config.get(NAME, ""),
            "before": before,
            "problem": problem,
            "told": told,
            "path": EDIT if before else CREATE,
            "name_chars_max": NAME_CHARS_MAX,
        }
        title = f"Edit {before}" if before else "Create a connector"
        return self._console.page(request, "connector_form.html", title=title, status=status, **model)
