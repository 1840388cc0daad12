"""The metadata quorum: its leader, voters and observers, and how far each of them is."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from odradek.console.collecting.snapshot import EventKind, Quorum, Snapshot
from odradek.console.frame import Console, Page
from odradek.console.words import counted, plural


def standing(quorum: Quorum) -> tuple[str, str]:
    """The tone, and in a sentence how many voters may still fail."""
    following = sum(each.follows for each in quorum.voters)
    count = len(quorum.voters)
    reached = f"{following} of {counted(count, 'voter')}"
    if quorum.leader is None:
        return "bad", f"No leader. {reached} can be reached, and {counted(quorum.majority, 'is needed', 'are needed')}"
    spare = following - quorum.majority
    if count == 1:
        return "good", "One node, which decides alone. Its loss stops the cluster"
    more = f"{spare} more may fail" if spare > 1 else "1 more may fail" if spare else "no other may fail"
    return (
        "good" if following == count else "warn"
    ), f"{reached} {plural(following, 'follows', 'follow')} the leader; {more}"


def _routes(console: Console) -> Sequence[BaseRoute]:
    def quorum(request: Request) -> Response:
        snapshot = console.snapshot
        found = snapshot.quorum
        tone, sentence = standing(found) if found is not None else ("", "This cluster does not describe a quorum")
        changes = [each for each in reversed(snapshot.events) if each.kind is EventKind.CONTROLLER]
        return console.page(
            request, "quorum.html", title="Metadata quorum", quorum=found, tone=tone, sentence=sentence, changes=changes
        )

    return [Route("/quorum", quorum)]


def _is_there(snapshot: Snapshot) -> bool:
    return snapshot.quorum is not None


PAGE = Page(
    name="quorum",
    title="Quorum",
    path="/quorum",
    icon="quorum",
    key="q",
    section="Cluster",
    routes=_routes,
    is_there=_is_there,
)
