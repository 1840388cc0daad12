"""Every API this broker serves, by key. What is not listed here is neither advertised nor answered."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from odradek.base.invariants import invariant
from odradek.server.request import Api, FrameApi

MODULES: tuple[str, ...] = ()


def load_apis() -> Mapping[int, Api | FrameApi]:
    """Each module has one `API`."""
    apis: dict[int, Api | FrameApi] = {}
    for name in MODULES:
        api: Api | FrameApi = import_module(f"odradek.server.api.{name}").API
        invariant(name.startswith(f"p{api.key:02}_"), f"{name} serves key {api.key}")
        apis[api.key] = api
    return apis
