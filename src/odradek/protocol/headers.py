"""Frames, and the headers of requests and responses.

A frame is an int32 length and that many bytes. Request headers have version 2 if the API version is flexible (tagged
fields at the end, the client id still with a plain length), otherwise 1. Response headers have version 1 or 0. The only
exception: ApiVersions responses always have header 0, because the client does not know the broker's versions yet.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from odradek.base import limits
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.schema import NEVER_FLEXIBLE
from odradek.protocol.wire import skip_tagged

API_VERSIONS = 18

# The first flexible version of each API that clients or peers use. Kept here so that a header can be read before the
# API's tables are imported. A test compares the two.
FLEXIBLE_FROM = {
    0: 9, 1: 12, 2: 6, 3: 9, 8: 8, 9: 6, 10: 3, 11: 6, 12: 4, 13: 4, 14: 4, 15: 5, 16: 3, 18: 3, 19: 5, 20: 4, 21: 2,
    22: 2, 23: 4, 24: 3, 25: 3, 26: 3, 27: 1, 28: 3, 32: 4, 33: 2, 34: 2, 35: 2, 37: 2, 42: 2, 43: 2, 44: 1, 45: 0,
    46: 0, 47: NEVER_FLEXIBLE, 52: 0, 53: 1, 54: 1, 55: 0, 56: 0, 57: 0, 58: 0, 59: 0, 60: 0, 61: 0, 62: 0, 63: 0,
    64: 0, 65: 0, 66: 0, 67: 0, 70: 0, 71: 0, 72: 0, 73: 0, 74: 0, 75: 0, 80: 0, 81: 0, 82: 0,
}  # fmt: skip

_request_start = Struct(">hhih")  # api key, api version, correlation id, length of the client id
_response_plain = Struct(">ii").pack  # frame length, correlation id
_response_tagged = Struct(">iix").pack  # and an empty tagged section


_new = tuple.__new__  # in every request: the constructor of a NamedTuple takes three times as long


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def decode_request_header(buffer: bytes | memoryview, position: int, end: int) -> RequestHeader:
    """The header of the request in `buffer[position:end]`. An unknown API or version is not an error here."""
    if end - position < _request_start.size:
        raise MalformedMessage(f"a request of {end - position} bytes is shorter than its header")
    api_key, api_version, correlation_id, length = _request_start.unpack_from(buffer, position)
    position += _request_start.size
    client_id = None
    if length >= 0:
        stop = position + length
        if stop > end or length > limits.client_id_chars_max:
            raise MalformedMessage(f"the client id has invalid length {length}")
        try:
            client_id = str(buffer[position:stop], "utf-8")
        except UnicodeDecodeError as broken:
            raise MalformedMessage("the client id is not UTF-8") from broken
        position = stop
    elif length != -1:
        raise MalformedMessage(f"the client id has invalid length {length}")
    if api_version >= FLEXIBLE_FROM.get(api_key, NEVER_FLEXIBLE):
        position = _after_tagged(buffer, position, end)
    return _new(RequestHeader, (api_key, api_version, correlation_id, client_id, position))


def _after_tagged(buffer: bytes | memoryview, position: int, end: int) -> int:
    if position < end and buffer[position] == 0:
        return position + 1
    section = bytes(buffer[position:end])
    try:
        return position + skip_tagged(section, 1, section[0])
    except IndexError as broken:
        raise MalformedMessage("the header of a request is incomplete") from broken


def has_tagged_response_header(api_key: int, api_version: int) -> bool:
    return api_key != API_VERSIONS and api_version >= FLEXIBLE_FROM[api_key]


def response_start(correlation_id: int, *, tagged: bool, body_bytes: int) -> bytes:
    """Length and header of a response. The body follows in other pieces."""
    if tagged:
        return _response_tagged(body_bytes + 5, correlation_id)
    return _response_plain(body_bytes + 4, correlation_id)


def response_frame(api_key: int, api_version: int, correlation_id: int, body: bytes) -> bytes:
    tagged = has_tagged_response_header(api_key, api_version)
    return response_start(correlation_id, tagged=tagged, body_bytes=len(body)) + body


def request_frame(api_key: int, api_version: int, correlation_id: int, client_id: str | None, body: bytes) -> bytes:
    encoded = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(encoded)
    tags = b"\0" if api_version >= FLEXIBLE_FROM[api_key] else b""
    header = _request_start.pack(api_key, api_version, correlation_id, length) + encoded + tags
    return (len(header) + len(body)).to_bytes(4, "big") + header + body
