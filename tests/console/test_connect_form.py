"""The form of a connector: made from its plug-in's declaration, with errors beside the fields, and secrets kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

import pytest

from odradek.console.connectors.api import ConnectApi, services
from odradek.console.connectors.form import FIRST, OWN, BadLine, Option, form_of, typed
from odradek.console.connectors.seen import connect_of
from odradek.console.service import running
from odradek.console.settings import ConsoleSettings
from odradek.testing import Embedded
from support.connect_service import Service, connect_service
from support.consoles import Running
from support.waiting import wait_until

DATABASE = {"name": "db", "connector.class": "sql-sink", "topics": "t", "connection.url": "sqlite:///x.db"}


@pytest.fixture(scope="module")
def service(broker: Embedded) -> Iterator[Service]:
    with connect_service(broker.bootstrap_servers) as service:
        yield service


@pytest.fixture(scope="module")
def api(service: Service) -> ConnectApi:
    return services([service.url])[service.url.removeprefix("http://")]


@pytest.fixture(scope="module")
def pages(broker: Embedded, service: Service) -> Iterator[Running]:
    settings = ConsoleSettings(bootstrap=broker.bootstrap_servers, port=0, connect=(service.url,))
    with running(settings) as (console, server):
        wait_until(lambda: connect_of(console.snapshot), "the console has asked the service")
        yield Running(console, server.url)


def option(api: ConnectApi, name: str, **config: str) -> Option:
    form = form_of(api, DATABASE | config, with_errors=True)
    return next(each for group in form.groups for each in group.options if each.name == name)


def test_the_declaration_becomes_groups_of_fields(api):
    form = form_of(api, {"connector.class": "sql-sink"}, with_errors=False)
    titles = [group.title for group in form.groups]
    assert titles[:2] == [FIRST, OWN]
    assert "Error Handling" in titles
    assert [group.is_open for group in form.groups] == [True, True, *[False] * (len(titles) - 2)]
    assert form.errors == 0  # they are shown after the first try
    assert not any(each.errors for group in form.groups for each in group.options)
    url = option(api, "connection.url")
    assert (url.input, url.required, url.value) == ("text", True, "sqlite:///x.db")
    assert "sqlite:////data/shop.db" in url.doc
    assert (option(api, "insert.mode").input, option(api, "insert.mode").texts) == ("select", ("insert", "upsert"))
    assert option(api, "auto.create").texts == ("true", "false")
    assert (option(api, "tasks.max").input, option(api, "tasks.max").default) == ("number", "1")


def test_errors_are_beside_the_field_and_those_of_unknown_options_above(api):
    assert "not an integer" in option(api, "tasks.max", **{"tasks.max": "many"}).errors[0]
    form = form_of(api, DATABASE | {"tasks.maxx": "2"}, with_errors=True)
    assert form.more_errors == ("there is no option 'tasks.maxx'; did you mean 'tasks.max'?",)
    assert form.more == "tasks.maxx=2"


def test_a_secret_is_never_in_the_form_and_is_kept(api):
    secret = option(api, "connection.password", **{"connection.password": "hunter2"})
    assert (secret.input, secret.value, secret.is_stored) == ("password", "", True)
    reference = option(api, "connection.password", **{"connection.password": "${env:DB}"})
    assert (reference.value, reference.is_stored) == ("${env:DB}", False)


def test_what_fields_mean():
    stored = {"connection.password": "hunter2", "producer.override.ssl.key.password": "four"}
    fields = {"name": "db", "connector.class": "sql-sink", "o:topics": " t ", "o:batch.size": ""}
    kept = {"o:connection.password": "", "stored:connection.password": "yes"}
    config = {"name": "db", "connector.class": "sql-sink", "topics": "t"}
    assert typed(fields, stored) == config
    assert typed(fields | kept, stored) == config | {"connection.password": "hunter2"}
    assert typed(fields | kept | {"remove:connection.password": "yes"}, stored) == config
    assert typed(fields | kept | {"o:connection.password": "new"}, stored) == config | {"connection.password": "new"}
    more = {"more": "producer.override.ssl.key.password=****\n\n a.b = c=d \n"}
    assert typed(fields | more, stored) == config | {"producer.override.ssl.key.password": "four", "a.b": "c=d"}
    with pytest.raises(BadLine):
        typed(fields | {"more": "nonsense"}, stored)


def fields_of(page: str) -> dict[str, str]:
    """What a browser would send of an untouched form."""
    found = {}
    for field in re.findall(r"<input [^>]+>", page):
        attributes = dict(re.findall(r'([\w:-]+)="([^"]*)"', field))
        if "name" in attributes and attributes.get("type") != "checkbox":
            found[unescape(attributes["name"])] = unescape(attributes.get("value", ""))
    return found


def test_a_connector_is_created_and_an_untouched_form_changes_nothing(pages, service, api):
    create = f"/create-connector?service={api.key}&plugin=sql-sink"
    fields = {"service": api.key, "connector.class": "sql-sink", "o:topics": "t"}
    answer = pages.post("/create-connector", form=create, name="db", **fields)
    assert answer.status_code == 400
    assert "missing required option" in answer.text
    secrets = {"o:connection.url": "postgresql://me:hunter2@127.0.0.1:1/x", "o:connection.password": "hunter2"}
    answer = pages.post("/create-connector", form=create, name="db", action="store", **fields, **secrets)
    assert "Connector db was created." in answer.text
    stored = dict(service.steward.configs.connectors["db"])
    assert stored["connection.password"] == "hunter2"
    again = pages.post("/create-connector", form=create, name="db", **fields, **secrets)
    assert "already exists" in again.text
    edit = f"/edit-connector?service={api.key}&name=db"
    page = pages.page(edit)
    assert "hunter2" not in page
    untouched = {name: text for name, text in fields_of(page).items() if name not in ("q", "csrf", "refresh", "theme")}
    answer = pages.post("/edit-connector", form=edit, **untouched)
    assert "The config of db was stored." in answer.text
    assert service.steward.configs.connectors["db"] == stored
    answer = pages.post("/edit-connector", form=edit, **untouched | {"more": "nonsense"})
    assert "is not name=value" in answer.text
    service.http.delete("/connectors/db")
    assert pages.get(edit, accept="text/html").status_code == 404
    assert pages.get("/create-connector?plugin=missing", accept="text/html").status_code == 503
