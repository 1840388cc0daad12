"""The log of a process on stderr: lines of text, or one JSON object per line.

Either way a record is one line (a traceback in text has several), and text from clients can neither start a new line
nor control the terminal.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping

TEXT, JSON = "text", "json"
FORMATS = (TEXT, JSON)

_CONTROL = (*range(0x20), *range(0x7F, 0xA0))


class TextLines(logging.Formatter):
    _ESCAPED: Mapping[int, str] = {code: f"\\x{code:02x}" for code in _CONTROL}

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 logging's name
        return super().formatMessage(record).translate(self._ESCAPED)


class JsonLines(logging.Formatter):
    """Fields: ts (UTC), level, logger, message; node, if the process is a node; exception, if there is one."""

    def __init__(self, node_id: int | None = None) -> None:
        super().__init__()
        self._node: dict[str, object] = {} if node_id is None else {"node": node_id}

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields: dict[str, object] = {
            "ts": f"{seconds}.{int(record.msecs):03}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **self._node,
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields)  # ASCII: it escapes every control character


def log_to_stderr(level: int, form: str = TEXT, *, node_id: int | None = None) -> None:
    log_to(logging.StreamHandler(), level, form, node_id=node_id)


def log_to(handler: logging.Handler, level: int, form: str = TEXT, *, node_id: int | None = None) -> None:
    handler.setFormatter(formatter(form, node_id))
    logging.basicConfig(level=level, handlers=[handler])


def formatter(form: str, node_id: int | None = None) -> logging.Formatter:
    return JsonLines(node_id) if form == JSON else TextLines()
