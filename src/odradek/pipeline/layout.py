"""The files, groups and topics in which an application keeps its state. Only this module knows their names.

    <state dir>/<app>/<query>           a checkpoint of Spark: offsets, commits, state;
    <state dir>/<app>/<query>/shards    the state of the engine;
    <state dir>/<app>/<query>/tables    rows that wait to be appended to tables of files;
    <state dir>/<app>/@tables/<query>   the checkpoint whose rows are in the tables;
    <state dir>/<app>/@steps/<query>    the steps that wrote this state;
    <state dir>/<app>/@views/<view>.db  the store of a view;
    <state dir>/<app>/@served/<view>.db the same, of `odradek streams views`;
    <state dir>/<app>/@status.json      the status of the queries;
    <state dir>/<app>/@lock             held while the application runs;
    <app>.<query>                       the consumer group that shows the progress of a query;
    <app>.<query>-markers               the internal topic that says which micro-batches of a query are written;
    <app>-<view>-changelog              the internal topic of a view.

Step names cannot contain `@`, so no query has one of these names. The state directory may be a URL that only Spark can
read (s3a://…). Then the files with `@` are under DEFAULT_STATE_DIR on the machine of the driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DEFAULT_STATE_DIR = "./.odradek-streams"


@dataclass(frozen=True, slots=True)
class Layout:
    state_dir: str
    app: str

    def __post_init__(self) -> None:
        if self.state_dir.startswith("file:///"):
            object.__setattr__(self, "state_dir", self.state_dir.removeprefix("file://"))

    @property
    def folder(self) -> Path:
        return Path(DEFAULT_STATE_DIR if self.is_remote else self.state_dir) / self.app

    @property
    def is_remote(self) -> bool:
        """Whether only Spark can read the checkpoints."""
        return "://" in self.state_dir

    def checkpoint(self, query: str) -> str:
        return f"{self.state_dir.rstrip('/')}/{self.app}/{query}"

    def shards(self, query: str) -> str:
        return f"{self.checkpoint(query)}/shards"

    def tables(self, query: str) -> str:
        return f"{self.checkpoint(query)}/tables"

    def owner_of_tables(self, query: str) -> Path:
        return self.folder / "@tables" / query

    def steps(self, query: str) -> Path:
        return self.folder / "@steps" / query

    def group(self, query: str) -> str:
        return f"{self.app}.{query}"

    @property
    def group_prefix(self) -> str:
        return f"{self.app}."

    def changelog(self, view: str) -> str:
        return f"{self.app}-{view}-changelog"

    def is_changelog(self, topic: str) -> bool:
        return topic.startswith(f"{self.app}-") and topic.endswith("-changelog")

    @property
    def views(self) -> Path:
        return self.folder / "@views"

    def view_store(self, view: str) -> Path:
        return self.views / f"{view}.db"

    def served_store(self, view: str) -> Path:
        return self.folder / "@served" / f"{view}.db"

    @property
    def status(self) -> Path:
        return self.folder / "@status.json"

    @property
    def lock(self) -> Path:
        return self.folder / "@lock"


def markers_of(group: str) -> str:
    return f"{group}-markers"


def applications(state_dir: str) -> list[Layout]:
    """The applications that have run from this state directory."""
    root = Layout(state_dir, ".").folder
    found = sorted(path.name for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    return [Layout(state_dir, name) for name in found]
