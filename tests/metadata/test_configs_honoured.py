"""Every accepted key has an effect: some code outside the definitions reads it."""

import re
from pathlib import Path

import pytest

import odradek
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.configs.definition import attributes
from odradek.metadata.configs.topic import TopicConfig


@pytest.fixture(scope="module")
def sources():
    root = Path(odradek.__file__).parent
    return "\n".join(path.read_text() for path in root.rglob("*.py") if "metadata/configs" not in path.as_posix())


@pytest.mark.parametrize("table", [BrokerConfig, TopicConfig])
def test_every_accepted_key_is_read_by_some_code(table, sources):
    unread = [key for key, attribute in attributes(table).items() if not re.search(rf"\.{attribute}\b", sources)]
    assert unread == []
