"""Materialised tables: a changelog topic in a local store, by key from Python and over HTTP."""

from odradek.streams.run.views.view import NotCaughtUp, View, ViewStatus

__all__ = ["NotCaughtUp", "View", "ViewStatus"]
