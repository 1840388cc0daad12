"""What the runtime needs from the broker: the internal partitions that it leads, and the other brokers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from odradek.base.errors import ErrorCode
from odradek.base.ids import BrokerId, Offset
from odradek.base.ports import Region
from odradek.protocol.schema import Message
from odradek.protocol.txn_marker import TxnMarker


class PartitionWriter(Protocol):
    """The only way of an engine to its log. Bound to one partition and one leader epoch."""

    @property
    def batch_bytes_max(self) -> int:
        """A larger batch is refused."""

    def append(self, batch: bytearray, verification: Any = None) -> Offset:  # noqa: ANN401
        """The base offset. KafkaError when nothing was written.

        `verification`: of the transaction that a transactional batch belongs to.
        """

    def append_marker(self, marker: TxnMarker) -> Offset:
        """Appends the control record that ends a transaction in this partition."""

    def is_committed(self, offset: Offset) -> bool: ...

    def when_committed(self, offset: Offset, callback: Callable[[ErrorCode], None]) -> None:
        """Calls back once the high watermark has passed `offset` (at once if it has), or with the reason why not."""


class Leadership(PartitionWriter, Protocol):
    """This broker leads one internal partition in one epoch."""

    @property
    def leader_epoch(self) -> int: ...

    @property
    def is_current(self) -> bool: ...

    @property
    def log_start_offset(self) -> Offset: ...

    @property
    def log_end_offset(self) -> Offset: ...

    def read(self, offset: Offset, max_bytes: int, end_offset: Offset) -> Region | None:
        """Whole batches, at least one, beginning with the batch that holds `offset`. None: nothing is there."""


# The answer, or None when the broker cannot be reached, is lost, or does not answer in time.
AskBroker = Callable[[BrokerId, Message, int, int], Awaitable[Message | None]]
