"""Plug-ins of users: which names they have, which of them are imported, and what is said about broken ones."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.connect.catalogue import Catalogue
from odradek.connect.kafka_classes import PLUGIN_OF
from odradek.connect.plugins import GROUPS, BrokenPlugin, any_plugin, plugin
from support.own_plugins import distribution

OWN = """
from dataclasses import dataclass
from pathlib import Path

from odradek.connect.interface import Sink, Source, sink, source
from odradek.connect.options import option
from odradek.connect.records import Record, SourcePlace


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    topic: str = option("The topic.")


@dataclass(frozen=True, slots=True, kw_only=True)
class WithPath:
    path: Path = option("A path.")


@source(Options)
def ten_lines(config, offset):
    yield Record(topic=config.topic, place=SourcePlace({}, {"n": 1}))


@sink(Options)
def put(config, records):
    pass


class NoRead(Source[Options]):
    Config = Options


class NoWrite(Sink[Options]):
    Config = Options


class NoConfig(Source):
    def read(self, partition, offset):
        return iter(())


@source(WithPath)
def odd_type(config, offset):
    return iter(())


def bare(config, offset):
    return iter(())
"""
NAMES = {
    "ten-lines": "ten_lines",
    "put": "put",
    "com.example.Put": "put",
    "no-read": "NoRead",
    "no-write": "NoWrite",
    "no-config": "NoConfig",
    "odd-type": "odd_type",
    "bare": "bare",
    "gone": "no_such_name",
}


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distribution(tmp_path, "own_connectors", OWN, NAMES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_connectors", raising=False)


def test_connectors_made_by_decorators_are_complete(own: None) -> None:
    assert plugin("ten-lines").kind == "source"
    config = plugin("ten-lines").loaded.Config(topic="numbers")
    (record,) = plugin("ten-lines").loaded(config).read({}, None)
    assert record.topic == "numbers"
    assert plugin("put").kind == "sink"
    plugin("put").loaded(config).write([record])


def test_a_plugin_may_have_several_entry_points_and_is_listed_once(own: None) -> None:
    assert plugin("com.example.Put").path == "own_connectors.put"
    assert [each.path for each in Catalogue().listed()].count("own_connectors.put") == 1


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("no-read", "is incomplete: it has no method read"),
        ("no-write", "is incomplete: it has no method write"),
        ("no-config", "has no options: set its attribute Config to a dataclass"),
        ("odd-type", "the option 'path' has the type Path; an option is str, int, float, bool, list"),
        ("bare", "is neither a Source nor a Sink; decorate a function with @source(Config) or @sink(Config)"),
        ("gone", "cannot be imported: module 'own_connectors' has no attribute 'no_such_name'"),
    ],
)
def test_a_broken_plugin_is_refused_with_what_it_lacks(own: None, name: str, told: str) -> None:
    with pytest.raises(BrokenPlugin) as refused:
        plugin(name)
    assert told in str(refused.value)
    assert f"'{name}' (own_connectors:" in str(refused.value)


@pytest.mark.parametrize("text", ["raise RuntimeError('no licence')", "def broken(:"])
def test_whatever_a_module_raises_hides_no_other_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    distribution(tmp_path, "unruly", text, {"unruly": "Source"})
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        BrokenPlugin, match=r"'unruly' \(unruly:Source\) cannot be imported: (RuntimeError|SyntaxError)"
    ):
        plugin("unruly")
    with caplog.at_level(logging.WARNING):
        assert "datagen" in {each.name for each in Catalogue().listed()}
    assert "the plug-in 'unruly' (unruly:Source) cannot be imported" in caplog.text


MISSPELT = """
from __future__ import annotations

import datetime
from dataclasses import dataclass

from odradek.connect.interface import source
from odradek.connect.options import option


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    since: datetime.nothing = option("The first day.")


@source(Options)
def misspelt(config, offset):
    return iter(())
"""


def test_a_misspelt_annotation_hides_no_other_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    distribution(tmp_path, "misspelt", MISSPELT, {"misspelt": "misspelt"})
    monkeypatch.syspath_prepend(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert "datagen" in {each.name for each in Catalogue().listed()}
    assert (
        "the plug-in 'misspelt' (misspelt:misspelt) cannot be used: "
        "AttributeError: module 'datetime' has no attribute 'nothing'"
    ) in caplog.text


def test_a_plugin_without_its_library_names_the_extra_and_is_no_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "odradek.connect.connectors.lake_sink", raising=False)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")  # the list is made in this process
    with pytest.raises(BrokenPlugin, match=r"needs pyarrow, which is not installed. Install it with: pip install 'odr"):
        plugin("lake")
    Catalogue().listed()
    assert "'lake'" not in caplog.text


def test_decorators_without_options_say_how_to_write_them() -> None:
    from odradek.connect.interface import sink, source

    for decorator in (source, sink):
        with pytest.raises(TypeError, match="needs the dataclass of the options: @"):
            decorator(lambda config, offset: iter(()))  # type: ignore[arg-type, return-value]


def test_a_name_of_two_distributions_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distribution(tmp_path, "second", OWN, {"datagen": "ten_lines"})
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        BrokenPlugin, match=r"'datagen' stands for odradek.*Datagen and second\.ten_lines; use the full"
    ):
        plugin("datagen")
    assert plugin("second.ten_lines").kind == "source"


def test_a_name_of_two_converters_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distribution(tmp_path, "second", OWN, {"json": "Options"}, group="odradek.converters")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BrokenPlugin, match=r"second\.Options; use the full name of the class instead$"):
        plugin("json", "odradek.converters")


def test_every_class_of_kafka_leads_to_its_plugin() -> None:
    for name, found in PLUGIN_OF.items():
        assert any_plugin(name).name == found


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("io.debezium.connector.mysql.MySqlConnector", "odradek.connectors"),
        ("org.apache.kafka.connect.storage.StringConverter", "odradek.converters"),
        ("org.apache.kafka.connect.transforms.Cast$Value", "odradek.transforms"),
        ("no.such.Plugin", "odradek.connectors"),
    ],
)
def test_only_the_plugin_that_a_config_names_is_imported(name: str, group: str) -> None:
    assert group in (*GROUPS, "odradek.connectors")
    asked = f"""
import contextlib, sys
from odradek.connect.plugins import NoSuchPlugin, plugin
with contextlib.suppress(NoSuchPlugin):
    found = plugin({name!r}, {group!r})
    assert found.loaded.__module__ in sys.modules
others = ("connectors.lake_sink", "connectors.postgres.source", "converters.avro", "transforms.unwrapping")
print([name for name in others if f"odradek.connect.{{name}}" in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "[]\n", done.stderr
