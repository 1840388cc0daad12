"""What the pages of connectors and of Streams applications share: how they appear in the navigation."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized

from starlette.routing import BaseRoute

from odradek.console.collecting.parts import Part
from odradek.console.collecting.snapshot import Snapshot
from odradek.console.frame import Console, Page


def pipelines_page(
    name: str,
    *,
    title: str,
    key: str,
    routes: Callable[[Console], Sequence[BaseRoute]],
    parts: Callable[[Console], Sequence[Part]],
    listed: Callable[[Snapshot], Sized | None],
) -> Page:
    """`listed` returns what the page lists, for its number in the navigation; None hides the page."""

    def count(snapshot: Snapshot) -> int | None:
        known = listed(snapshot)
        return None if known is None else len(known)

    return Page(
        name=name,
        title=title,
        path=f"/{name}",
        icon=name,
        key=key,
        section="Pipelines",
        routes=routes,
        is_there=lambda snapshot: listed(snapshot) is not None,
        parts=parts,
        count=count,
    )
