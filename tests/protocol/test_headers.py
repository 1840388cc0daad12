from __future__ import annotations

import io

import pytest
from kio.schema.request_header.v1.header import RequestHeader as HeaderV1
from kio.schema.request_header.v2.header import RequestHeader as HeaderV2
from kio.serial import entity_writer
from kio.static.primitive import i16, i32

from odradek.base import limits
from odradek.protocol.headers import decode_request_header, request_frame, response_frame, response_start
from odradek.protocol.malformed import MalformedMessage

METADATA, API_VERSIONS, PRODUCE = 3, 18, 0


def header(encoded: bytes):
    return decode_request_header(memoryview(bytearray(encoded)), 0, len(encoded))


@pytest.mark.parametrize("client_id", ["rdkafka", "", None, "é" * 100])
@pytest.mark.parametrize(("version", "theirs"), [(8, HeaderV1), (9, HeaderV2)])
def test_header_written_by_kio_is_decoded(client_id, version, theirs) -> None:
    output = io.BytesIO()
    entity = theirs(
        request_api_key=i16(METADATA), request_api_version=i16(version), correlation_id=i32(7), client_id=client_id
    )
    entity_writer(theirs)(output, entity)
    encoded = output.getvalue()
    assert header(encoded + b"body") == (METADATA, version, 7, client_id, len(encoded))
    assert request_frame(METADATA, version, 7, client_id, b"body")[4:] == encoded + b"body"


def test_tagged_fields_follow_a_null_client_id() -> None:
    assert header(bytes.fromhex("0003 000c 00000001 ffff 00")).body_position == 11


def test_unknown_tags_are_skipped() -> None:
    assert header(bytes.fromhex("0003 000c 00000001 0001 78 02 05 02 aabb 06 00") + b"body").body_position == 18


def test_header_is_decoded_in_the_middle_of_a_buffer() -> None:
    frame = request_frame(METADATA, 12, 5, "c", b"")
    buffer = memoryview(b"junk" + frame + b"junk")
    assert decode_request_header(buffer, 8, 4 + len(frame)).body_position == 4 + len(frame)


def test_header_of_an_unknown_api_is_decoded() -> None:
    assert header(bytes.fromhex("7fff 0000 00000001 ffff")) == (0x7FFF, 0, 1, None, 10)


@pytest.mark.parametrize(
    "encoded",
    [
        "",
        "0003 000c 00000001 ff",
        "0003 000c 00000001 fffe 00",
        "0003 000c 00000001 7fff 00",
        "0003 000c 00000001 0002 78",
        "0003 0000 00000001 0002 78",
        "0003 000c 00000001 0001 ff 00",
        "0003 000c 00000001 ffff",
        "0003 000c 00000001 ffff 01 00 05 00",
        "0003 000c 00000001 ffff 41" + "00 00" * 65,
        "0003 000c 00000001 ffff ffffffffffff",
    ],
)
def test_malformed_headers_are_refused(encoded: str) -> None:
    with pytest.raises(MalformedMessage):
        header(bytes.fromhex(encoded))


def test_client_id_length_is_limited() -> None:
    longest = "x" * limits.client_id_chars_max
    assert header(request_frame(METADATA, 0, 1, longest, b"")[4:]).client_id == longest
    with pytest.raises(MalformedMessage):
        header(request_frame(METADATA, 0, 1, longest + "x", b"")[4:])


def test_responses_of_flexible_versions_have_tagged_headers() -> None:
    assert response_frame(METADATA, 8, 7, b"body") == bytes.fromhex("00000008 00000007") + b"body"
    assert response_frame(METADATA, 9, 7, b"body") == bytes.fromhex("00000009 00000007 00") + b"body"


def test_api_versions_responses_never_have_tagged_headers() -> None:
    for version in range(6):
        assert response_frame(API_VERSIONS, version, 7, b"") == bytes.fromhex("00000004 00000007")


def test_response_start_has_the_length_of_the_body() -> None:
    assert response_start(7, tagged=True, body_bytes=100) == bytes.fromhex("00000069 00000007 00")
