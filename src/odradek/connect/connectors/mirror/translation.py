"""Translates offsets of the source into offsets of the mirrored topics, by the offset syncs."""

from __future__ import annotations

from odradek.connect.connectors.mirror.formats import OffsetSync

Place = tuple[str, int]
KEPT_MAX = 128


class Translation:
    """A translated offset never skips records: it is at most the first record that the group has not read."""

    def __init__(self) -> None:
        self._syncs: dict[Place, list[tuple[int, int]]] = {}

    def learn(self, sync: OffsetSync) -> None:
        known = self._syncs.setdefault((sync.topic, sync.partition), [])
        if known and (sync.upstream < known[-1][0] or sync.downstream < known[-1][1]):
            # One of the topics was deleted and created again, or the mirror began again: older syncs are void.
            known.clear()
        known.append((sync.upstream, sync.downstream))
        if len(known) > KEPT_MAX:
            known[:] = _thinned(known)

    def __call__(self, place: Place, upstream: int) -> int | None:
        """None if nothing is known about the records before this offset.

        Between two syncs the distance is unknown: compaction and transactions leave gaps. So an offset after a sync
        is translated to the record behind that sync, as in MirrorMaker 2.
        """
        for known, downstream in reversed(self._syncs.get(place, ())):
            if known <= upstream:
                return downstream + (upstream > known)
        return None


def _thinned(syncs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Fewer syncs the older they are: each that is kept is twice as far from the newest one as the one after it."""
    newest = syncs[-1][0]
    kept = [syncs[-1]]
    for sync in reversed(syncs[:-1]):
        if newest - sync[0] >= 2 * (newest - kept[-1][0]):
            kept.append(sync)
    return kept[::-1]
