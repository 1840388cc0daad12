"""A relay between a client and a broker that records the API versions of the client."""

from __future__ import annotations

import asyncio
import struct
import threading
from typing import Self

API_NAMES = {
    0: "Produce",
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    8: "OffsetCommit",
    9: "OffsetFetch",
    10: "FindCoordinator",
    11: "JoinGroup",
    12: "Heartbeat",
    13: "LeaveGroup",
    14: "SyncGroup",
    15: "DescribeGroups",
    16: "ListGroups",
    18: "ApiVersions",
    19: "CreateTopics",
    20: "DeleteTopics",
    21: "DeleteRecords",
    22: "InitProducerId",
    23: "OffsetForLeaderEpoch",
    32: "DescribeConfigs",
    33: "AlterConfigs",
    34: "AlterReplicaLogDirs",
    35: "DescribeLogDirs",
    37: "CreatePartitions",
    42: "DeleteGroups",
    43: "ElectLeaders",
    44: "IncrementalAlterConfigs",
    45: "AlterPartitionReassignments",
    46: "ListPartitionReassignments",
    47: "OffsetDelete",
    55: "DescribeQuorum",
    57: "UpdateFeatures",
    60: "DescribeCluster",
    61: "DescribeProducers",
    71: "GetTelemetrySubscriptions",
    72: "PushTelemetry",
    74: "ListConfigResources",
    75: "DescribeTopicPartitions",
}


class Wiretap:
    """Listens on `port` and relays to `upstream`. The broker must advertise the tap's port, or clients bypass it."""

    def __init__(self, port: int, upstream: int) -> None:
        self._port, self._upstream = port, upstream
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._spoken: set[tuple[int, int]] = set()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._port}"

    def spoken(self) -> set[tuple[str, int]]:
        """(API, version) pairs that passed."""
        return {(API_NAMES.get(key, f"api {key}"), version) for key, version in self._spoken}

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        server = self._loop.run_until_complete(asyncio.start_server(self._relay, "127.0.0.1", self._port))
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        except OSError:
            writer.close()
            return
        back = asyncio.create_task(self._copy(up_reader, writer))
        try:
            while True:
                length = await reader.readexactly(4)
                frame = await reader.readexactly(struct.unpack(">i", length)[0])
                key, version = struct.unpack_from(">hh", frame)
                self._spoken.add((key, version))
                up_writer.write(length + frame)
                await up_writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            up_writer.close()
            back.cancel()
            writer.close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(256 * 1024):
                writer.write(chunk)
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
