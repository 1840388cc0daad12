"""For Java processes that live for a minute: compiled quickly rather than well, they take half the time."""

from __future__ import annotations

QUICK_JAVA = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
