"""Where tables are: a directory, or a bucket of S3 or of a server that speaks its protocol."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

S3 = "s3://"


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """`path` is a directory or `s3://bucket/prefix`. Without keys, S3 takes them from the environment."""

    path: str
    endpoint: str | None = None
    region: str | None = None
    key_id: str | None = None
    secret: str | None = None

    @property
    def is_s3(self) -> bool:
        return self.path.startswith(S3)

    def check(self) -> None:
        """ValueError for a URL of another storage: as a path, it would become a directory of that name."""
        if "://" in self.path and not self.is_s3:
            raise ValueError(
                f"{self.path}: a table is in a directory or at s3://; hdfs:// and others are not supported"
            )

    def of(self, name: str) -> str:
        """The address of a table."""
        return f"{self.path.rstrip('/')}/{name}"

    def delta_options(self) -> dict[str, str]:
        named = {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": self.region,
            "AWS_ACCESS_KEY_ID": self.key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_ALLOW_HTTP": "true" if (self.endpoint or "").startswith("http:") else None,
        }
        return _known(named) if self.is_s3 else {}

    def iceberg_options(self) -> dict[str, str]:
        named = {
            "s3.endpoint": self.endpoint,
            "s3.region": self.region,
            "s3.access-key-id": self.key_id,
            "s3.secret-access-key": self.secret,
        }
        return _known(named) if self.is_s3 else {}

    def files(self, name: str) -> Files:
        """The files of a table that has no library of its own."""
        if not self.is_s3:
            return Files(fs.LocalFileSystem(), str(Path(self.of(name)).absolute()), "local")
        scheme, _, host = (self.endpoint or "").rpartition("://")
        named = {
            "endpoint_override": host,
            "scheme": scheme,
            "region": self.region,
            "access_key": self.key_id,
            "secret_key": self.secret,
        }
        # Buckets are not created: a misspelt name is an error.
        return Files(fs.S3FileSystem(**_known(named)), self.of(name).removeprefix(S3), "s3")


def _known(named: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in named.items() if value}


@dataclass(frozen=True, slots=True)
class Files:
    """Files below a folder, by relative names. What a method has written survives a crash of the machine."""

    system: fs.FileSystem
    root: str
    kind: Literal["local", "s3"]

    def write_rows(self, name: str, rows: pa.Table) -> None:
        path = self._created(name)
        with self.system.open_output_stream(path) as out:
            pq.write_table(rows, out, compression="zstd")
        self._sync(path)

    def write_text(self, name: str, text: str) -> None:
        """Replaces a file as a whole."""
        path = self._created(name)
        new = path if self.kind == "s3" else f"{path}.new"
        with self.system.open_output_stream(new) as out:
            out.write(text.encode())
        self._sync(new)
        if new != path:
            self.system.move(new, path)
            self._sync_folder(path)

    def read_text(self, name: str) -> str | None:
        try:
            with self.system.open_input_stream(f"{self.root}/{name}") as file:
                return bytes(file.read()).decode()
        except FileNotFoundError:
            return None

    def move(self, name: str, to: str) -> None:
        """Moves a file, unless that has happened before."""
        source, target = f"{self.root}/{name}", self._created(to)
        if self.system.get_file_info(source).type == fs.FileType.NotFound:
            return
        self.system.move(source, target)
        self._sync_folder(target)

    def remove_all(self, folder: str) -> None:
        if self.system.get_file_info(f"{self.root}/{folder}").type == fs.FileType.Directory:
            self.system.delete_dir_contents(f"{self.root}/{folder}")

    def a_file(self, suffix: str) -> str | None:
        """The full path of the last written data file, if there is one. Folders that begin with _ hold no data."""
        everything = self.system.get_file_info(fs.FileSelector(self.root, allow_not_found=True, recursive=True))
        found = [
            info
            for info in everything
            if info.path.endswith(suffix) and "/_" not in info.path.removeprefix(self.root) and info.is_file
        ]
        return max(found, key=lambda info: info.mtime_ns or 0).path if found else None

    def _created(self, name: str) -> str:
        path = f"{self.root}/{name}"
        if self.kind != "s3":
            self.system.create_dir(path.rpartition("/")[0], recursive=True)
        return path

    def _sync(self, path: str) -> None:
        if self.kind == "local":
            _fsync(path)

    def _sync_folder(self, path: str) -> None:
        if self.kind == "local":
            _fsync(str(Path(path).parent))


def _fsync(path: str) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
