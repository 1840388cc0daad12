"""Follows the topic in which applications tell about themselves, and joins it with the lag of their groups.

Every client of the cluster can write to this topic. Numbers of applications and sizes are bounded, and all texts are
shown as text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from odradek.console.applications.letters import LetterCounter
from odradek.console.applications.seen import Application, Applications, Letters, Query
from odradek.console.collecting.cluster import Cluster
from odradek.console.collecting.figures import EARLIEST, LATEST
from odradek.console.collecting.history import History
from odradek.console.collecting.snapshot import Snapshot, Topic
from odradek.console.messages.source import Source
from odradek.pipeline.announcement import (
    STATUS,
    TOPIC,
    TOPOLOGY,
    About,
    Announced,
    BadAnnouncement,
    decoded,
)
from odradek.pipeline.picture import Picture
from odradek.pipeline.query_record import QueryRecord
from odradek.protocol.records import Record
from odradek.watch.watched_cluster import now_ms

APPLICATIONS_MAX = 500
QUERIES_MAX = 50
SHAPES_MAX = 300
NO_GROUP = About(group="", reads=(), writes=(), guarantees={})


class Reader:
    """`history` gets the rates and lags of applications, by the names of `rate_figure` and `lag_figure`."""

    def __init__(self, cluster: Cluster, history: History, now_s: Callable[[], float] = time.time) -> None:
        self._cluster = cluster
        self._history = history
        self._now_s = now_s
        self._topic_id = ""
        self._next: dict[int, int] = {}  # the offset to read next, by partition
        self._statuses: dict[str, Announced] = {}
        self._pictures: dict[str, Picture] = {}
        self._unreadable = 0
        self._letters = LetterCounter(cluster)

    def read(self, snapshot: Snapshot) -> Applications | None:
        topic = snapshot.topics.get(TOPIC)
        if topic is None:
            return None
        self._follow(snapshot, topic)
        if not self._statuses:
            return None
        topics = {name for told in self._statuses.values() for name in told.dead_letters}
        letters = self._letters.turn(topics, snapshot)
        known = tuple(self._complete(self._statuses[name], letters, snapshot) for name in sorted(self._statuses))
        self._history.add(now_ms(), {rate_figure(each.name): each.in_per_s for each in known})
        self._history.add(now_ms(), {lag_figure(each.name): each.lag for each in known})
        return Applications(known=known, unreadable=self._unreadable)

    # The topic

    def _follow(self, snapshot: Snapshot, topic: Topic) -> None:
        """Raises CannotRead and NoAnswer."""
        if topic.topic_id != self._topic_id:  # deleted and made again
            self._topic_id, self._next, self._unreadable = topic.topic_id, {}, 0
            self._statuses, self._pictures = {}, {}
        source = Source(self._cluster, snapshot, topic)
        places = source.chosen(())
        ends = source.offsets(places, LATEST)
        if all(self._next.get(place) == end for place, end in ends.items()):
            return
        starts = source.offsets(places, EARLIEST)
        with source.reader(lambda: None) as reader:
            for place, end in ends.items():
                begin = max(self._next.get(place, 0), starts.get(place, 0))
                for piece in reader.pieces(place, begin, end):
                    for group in piece.groups:
                        self._take(group.records())
                    self._next[place] = piece.next_offset
                self._next.setdefault(place, begin)

    def _take(self, records: Iterable[Record]) -> None:
        for record in records:
            part, _, name = (record.key or b"").decode(errors="replace").partition(" ")
            try:
                self._told(part, name, record.value)
            except BadAnnouncement:
                self._unreadable += 1

    def _told(self, part: str, name: str, value: bytes | None) -> None:
        if part not in (STATUS, TOPOLOGY) or not name:
            raise BadAnnouncement("its key has another form")
        kept: dict[str, Announced] | dict[str, Picture] = self._statuses if part == STATUS else self._pictures
        if value is None:
            kept.pop(name, None)
            return
        if name not in kept and len(kept) >= APPLICATIONS_MAX:
            raise BadAnnouncement("there are too many applications")
        if part == STATUS:
            status = decoded(Announced, value)
            if status.application != name or len(status.queries) > QUERIES_MAX:
                raise BadAnnouncement("it is of another application, or has too many queries")
            self._statuses[name] = status
        else:
            picture = decoded(Picture, value)
            if len(picture.shapes) > SHAPES_MAX or len(picture.arrows) > 4 * SHAPES_MAX:
                raise BadAnnouncement("the picture is too large")
            self._pictures[name] = picture

    # What the cluster knows of it

    def _complete(self, told: Announced, letters: Mapping[str, Letters], snapshot: Snapshot) -> Application:
        return Application(
            announced=told,
            queries=tuple(self._query(record, told.about, snapshot) for record in told.queries),
            letters=tuple(letters[topic] for topic in told.dead_letters),
            picture=self._pictures.get(told.application),
            silent_s=max(self._now_s() - told.at_s, 0.0),
        )

    def _query(self, record: QueryRecord, about: Mapping[str, About], snapshot: Snapshot) -> Query:
        known = about.get(record.name, NO_GROUP)
        group = snapshot.groups.get(known.group)
        if group is None or group.lag is None:
            return Query(record=record, about=known)
        return Query(
            record=record,
            about=known,
            lag=group.lag.total_lag,
            seconds_behind=group.lag.age.seconds,
            rule=group.rule,
        )


def rate_figure(application: str) -> str:
    """The name of the figure that is the rate of an application."""
    return f"application rate/{application}"


def lag_figure(application: str) -> str:
    return f"application lag/{application}"
