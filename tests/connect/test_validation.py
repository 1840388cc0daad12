"""Configs of connectors: what is refused, and the sentence that says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.connect.plugins import NoSuchPlugin
from odradek.connect.providers import Unresolved, resolved
from odradek.connect.topic_creation import rule_for, topic_rules
from odradek.connect.validation import connector, secrets_of, validated

DATAGEN = {"name": "gen", "connector.class": "datagen", "topic": "orders"}
SINK = {"name": "out", "connector.class": "files-sink", "path": "/tmp/out"}


def errors(given: dict[str, str]) -> list[str]:
    return validated(given).errors


def test_a_good_config_has_no_errors() -> None:
    assert errors(DATAGEN | {"tasks.max": "3", "producer.override.linger.ms": "5"}) == []


@pytest.mark.parametrize("name", ["datagen", "Datagen", "odradek.connect.connectors.datagen.Datagen"])
def test_a_plugin_has_three_names(name: str) -> None:
    assert connector(DATAGEN | {"connector.class": name}).plugin.name == "datagen"


def test_an_unknown_plugin_is_refused_with_the_installed_ones() -> None:
    with pytest.raises(NoSuchPlugin, match="did you mean 'datagen'"):
        validated(DATAGEN | {"connector.class": "datagenn"})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"tasks.max": "0"}, "must be at least 1"),
        ({"taks.max": "1"}, "did you mean 'tasks.max'"),
        ({"producer.override.lingr.ms": "5"}, "lingr.ms"),
        ({"value.converter": "no.such.Converter"}, "no plug-in 'no.such.Converter'"),
        ({"transforms": "a"}, 'transforms.a: missing required option "type"'),
        ({"topic.creation.default.partitions": "3"}, "topic.creation.default.replication.factor is required"),
        ({"errors.tolerance": "some"}, "one of none, all"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, str], told: str) -> None:
    assert any(told in error for error in errors(DATAGEN | change)), errors(DATAGEN | change)


def test_a_sink_needs_topics_or_a_pattern_and_not_both() -> None:
    assert any("exactly one of" in error for error in errors(SINK))
    assert any("exactly one of" in error for error in errors(SINK | {"topics": "a", "topics.regex": "b"}))
    assert errors(SINK | {"topics.regex": "a.*"}) == []
    assert any("not a regular expression" in error for error in errors(SINK | {"topics.regex": "("}))


def test_dead_letters_may_not_go_to_a_topic_that_the_sink_reads() -> None:
    given = SINK | {"topics": "a,b", "errors.deadletterqueue.topic.name": "b"}
    assert any("dead letters" in error for error in errors(given))


def test_references_are_resolved_and_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH_OF_FILES", "/data")
    file = tmp_path / "secrets.properties"
    file.write_text("# comment\nuser = ada\npassword=x=y\n")
    given = {"a": "${env:PATH_OF_FILES}/in", "b": f"${{file:{file}:user}}", "c": f"${{file:{file}:password}}", "d": "$"}
    assert resolved(given) == {"a": "/data/in", "b": "ada", "c": "x=y", "d": "$"}
    checked = validated(DATAGEN | {"topic": "${env:PATH_OF_FILES}"})
    assert {each.text for each in checked.checked if each.definition.name == "topic"} == {"${env:PATH_OF_FILES}"}


def test_a_reference_that_leads_nowhere_names_its_option(tmp_path: Path) -> None:
    for text in ("${env:NO_SUCH_VARIABLE}", f"${{file:{tmp_path}/none}}", f"${{file:{tmp_path}/none:key}}"):
        with pytest.raises(Unresolved, match='"topic" refers to'):
            resolved({"topic": text})
        assert any('"topic" refers to' in error for error in errors(DATAGEN | {"topic": text}))


def test_topic_creation_uses_the_first_group_that_matches() -> None:
    rules = topic_rules(
        {
            "groups": "compacted",
            "compacted.include": "state-.*",
            "compacted.exclude": "state-tmp",
            "compacted.cleanup.policy": "compact",
            "default.partitions": "3",
            "default.replication.factor": "-1",
        }
    )
    state, other = rule_for("state-a", rules), rule_for("state-tmp", rules)
    assert state is not None
    assert other is not None
    assert (state.group, state.partitions, dict(state.config)) == ("compacted", 3, {"cleanup.policy": "compact"})
    assert (other.group, dict(other.config)) == ("default", {})
    assert topic_rules({}) == ()


@pytest.mark.parametrize(
    ("name", "text", "hidden"),
    [
        ("value.converter.basic.auth.user.info", "me:pass", True),
        ("value.converter.schema.registry.url", "http://me:pass@registry:8081", True),
        ("value.converter.schema.registry.url", "http://registry:8081/a:b@c", False),
        ("value.converter.basic.auth.credentials.source", "USER_INFO", False),
    ],
)
def test_logins_for_the_schema_registry_are_secret(name: str, text: str, hidden: bool) -> None:
    assert (name in secrets_of({"connector.class": "datagen", name: text})) == hidden
