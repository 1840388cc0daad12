"""Records of `__transaction_state`: a key is its type (int16) and body, a value its version (int16) and body."""

from __future__ import annotations

from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.messages.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue
from odradek.protocol.schema import ByteSource

__all__ = [
    "PartitionsSchema",
    "TransactionLogKey",
    "TransactionLogValue",
    "decode_transaction_key",
    "decode_transaction_value",
    "encode_transaction_key",
    "encode_transaction_value",
]

_TRANSACTION = b"\0\0"


def encode_transaction_key(transactional_id: str) -> bytes:
    return _TRANSACTION + TransactionLogKey(transactional_id=transactional_id).encode(0)


def encode_transaction_value(value: TransactionLogValue, version: int) -> bytes:
    return version.to_bytes(2, "big") + value.encode(version)


def decode_transaction_key(data: ByteSource) -> str:
    if bytes(data[:2]) != _TRANSACTION:
        raise MalformedMessage(f"a transaction record cannot begin with {bytes(data[:2])!r}")
    return TransactionLogKey.decode(data, 0, 2).transactional_id


def decode_transaction_value(data: ByteSource) -> TransactionLogValue:
    if len(data) < 2:
        raise MalformedMessage(f"{len(data)} bytes are too few for a transaction record")
    return TransactionLogValue.decode(data, int.from_bytes(data[:2], "big", signed=True), 2)
