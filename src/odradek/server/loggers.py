"""The loggers of this process as Kafka's resource BROKER_LOGGER: their levels change while the node runs.

As in Kafka, a change is not stored: after a restart the levels are those of the command line. The name of the root
logger is `root`. A package can be named too: its level applies to all its modules that have none of their own.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.configs import Operation
from odradek.protocol.messages.p44_incremental_alter_configs import AlterableConfig

logger = logging.getLogger(__name__)

ROOT = "root"
# Kafka's names; Python has no name for the first one, and calls the last one critical.
LEVELS = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_KIND = "BROKER_LOGGER"


class Loggers:
    def __init__(self, root: logging.Logger = logging.root) -> None:
        self._root = root

    def levels(self) -> dict[str, str]:
        """The effective level of each logger, by name."""
        names = sorted(self._root.manager.loggerDict)
        return {ROOT: _level_name(self._root), **{name: _level_name(self._nearest(name)) for name in names}}

    def _nearest(self, name: str) -> logging.Logger:
        """The logger itself, or the first of its parents that was ever used: asking must not create loggers."""
        while name:
            found = self._root.manager.loggerDict.get(name)
            if isinstance(found, logging.Logger):
                return found
            name = name.rpartition(".")[0]
        return self._root

    def alter(self, changes: Sequence[AlterableConfig], *, validate_only: bool) -> None:
        """Makes all changes or none. Raises KafkaError."""
        for change in changes:
            self._check(change)
        if validate_only:
            return
        for change in changes:
            one = self._root if change.name == ROOT else self._root.manager.getLogger(change.name)
            if change.config_operation == Operation.SET:
                one.setLevel(LEVELS[change.value or ""])
                logger.warning("the level of the logger %s is now %s", change.name, change.value)
            else:
                one.setLevel(logging.NOTSET)
                logger.warning("the logger %s has the level of its parent again", change.name)

    def _check(self, change: AlterableConfig) -> None:
        operation = change.config_operation
        if operation in (Operation.APPEND, Operation.SUBTRACT):
            name = Operation(operation).name
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} operation is not allowed for the {_KIND} resource")
        if operation not in (Operation.SET, Operation.DELETE):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unknown operation type {operation} is not allowed for the {_KIND} resource"
            )
        if change.name != ROOT and change.name not in self._root.manager.loggerDict:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!")
        if operation == Operation.DELETE:
            if change.name == ROOT:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed"
                )
        elif change.value not in LEVELS:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level. "
                f"Valid log levels are {', '.join(sorted(LEVELS))}",
            )


def _level_name(one: logging.Logger) -> str:
    """The highest of Kafka's levels at which everything that this logger prints is printed, too."""
    level = one.getEffectiveLevel()
    return next((name for name, number in LEVELS.items() if level <= number), "FATAL")
