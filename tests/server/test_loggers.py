"""Levels of loggers, changed while a process runs."""

from __future__ import annotations

import logging

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.messages.p44_incremental_alter_configs import AlterableConfig
from odradek.server.loggers import Loggers

SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture
def root():
    """Loggers of their own, so that a test does not change those of pytest."""
    root = logging.RootLogger(logging.WARNING)
    root.manager = logging.Manager(root)
    root.manager.getLogger("odradek.server.network.connection")
    root.manager.getLogger("asyncio")
    return root


def change(name, value=None, operation=SET):
    return AlterableConfig(name=name, value=value, config_operation=operation)


def test_levels_have_kafkas_names_and_packages_are_listed(root):
    assert Loggers(root).levels() == {
        "root": "WARN",
        "asyncio": "WARN",
        "odradek": "WARN",
        "odradek.server": "WARN",
        "odradek.server.network": "WARN",
        "odradek.server.network.connection": "WARN",
    }


@pytest.mark.parametrize(
    ("level", "number"), [("TRACE", 5), ("DEBUG", 10), ("INFO", 20), ("WARN", 30), ("ERROR", 40), ("FATAL", 50)]
)
def test_the_root_logger_changes_every_logger_without_a_level_of_its_own(root, level, number):
    loggers = Loggers(root)
    loggers.alter([change("asyncio", "ERROR"), change("root", level)], validate_only=False)
    assert root.level == number
    assert root.manager.getLogger("odradek.server.network.connection").isEnabledFor(number)
    assert loggers.levels()["odradek.server.network.connection"] == level
    assert loggers.levels()["asyncio"] == "ERROR"


def test_a_package_changes_its_modules_until_its_level_is_deleted(root):
    loggers = Loggers(root)
    loggers.alter([change("odradek.server", "DEBUG")], validate_only=False)
    assert root.manager.getLogger("odradek.server.network.connection").isEnabledFor(logging.DEBUG)
    assert loggers.levels()["odradek.server.network"] == "DEBUG"
    assert loggers.levels()["odradek"] == "WARN"
    loggers.alter([change("odradek.server", operation=DELETE)], validate_only=False)
    assert not root.manager.getLogger("odradek.server.network.connection").isEnabledFor(logging.INFO)


@pytest.mark.parametrize(
    ("wrong", "code", "message"),
    [
        (change("no.such", "INFO"), ErrorCode.INVALID_CONFIG, "Logger no.such does not exist!"),
        (change("no.such", operation=DELETE), ErrorCode.INVALID_CONFIG, "Logger no.such does not exist!"),
        (
            change("root", "LOUD"),
            ErrorCode.INVALID_CONFIG,
            "Cannot set the log level of root to LOUD as it is not a supported log level. "
            "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
        ),
        (change("root", "info"), ErrorCode.INVALID_CONFIG, "Cannot set the log level of root to info"),
        (
            change("root", operation=DELETE),
            ErrorCode.INVALID_REQUEST,
            "Removing the log level of the root logger is not allowed",
        ),
        (
            change("root", "INFO", APPEND),
            ErrorCode.INVALID_REQUEST,
            "APPEND operation is not allowed for the BROKER_LOGGER resource",
        ),
        (
            change("root", "INFO", SUBTRACT),
            ErrorCode.INVALID_REQUEST,
            "SUBTRACT operation is not allowed for the BROKER_LOGGER resource",
        ),
        (change("root", "INFO", 9), ErrorCode.INVALID_REQUEST, "Unknown operation type 9 is not allowed"),
    ],
)
def test_a_wrong_change_is_refused_and_none_is_made(root, wrong, code, message):
    with pytest.raises(KafkaError) as refused:
        Loggers(root).alter([change("asyncio", "FATAL"), wrong], validate_only=False)
    assert refused.value.code == code
    assert refused.value.message.startswith(message)
    assert root.level == logging.WARNING
    assert root.manager.getLogger("asyncio").level == logging.NOTSET


def test_validation_alone_changes_nothing(root):
    Loggers(root).alter([change("root", "DEBUG")], validate_only=True)
    assert root.level == logging.WARNING


def test_asking_for_levels_creates_no_loggers(root):
    Loggers(root).levels()
    assert not isinstance(root.manager.loggerDict["odradek.server"], logging.Logger)
