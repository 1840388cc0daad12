"""Options for short-lived Java processes: with only the fast compiler they take half the time."""

from __future__ import annotations

QUICK_JAVA = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
