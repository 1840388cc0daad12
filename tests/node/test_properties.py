"""Property files are read as Java reads them."""

import pytest

from odradek.node.properties import amend_properties, parse_properties, write_properties


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=1\nb: 2\nc 3\n", {"a": "1", "b": "2", "c": "3"}),
        ("# a=1\n  ! b=2\n\n", {}),
        ("  a = 1 2 ", {"a": "1 2 "}),
        ("a=1,\\\n   2", {"a": "1,2"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a\\ b\\:c=d", {"a b:c": "d"}),
        ("a=\\u00fc\\tx", {"a": "ü\tx"}),
        ("a=b=c", {"a": "b=c"}),
        ("a=1\r\na=2", {"a": "2"}),
        ("a", {"a": ""}),
        ("a=1\\", {"a": "1"}),
        ("a=1\\\n#2\nb=3", {"a": "1#2", "b": "3"}),
    ],
)
def test_a_properties_file_is_parsed_as_in_java(text, values):
    assert parse_properties(text) == values


@pytest.mark.parametrize(
    "values", [{"a": "1", "b c": "x=y: z"}, {"a": "C:\\data", "#b": "!c"}, {"a": " b", "": "", "e": ""}]
)
def test_what_is_written_is_read_again(values):
    assert parse_properties(write_properties(values)) == values


@pytest.mark.parametrize(
    ("text", "values", "amended"),
    [
        ("a=1\n# why\nb: 2\n", {"b": "3"}, "a=1\n# why\nb=3\n"),
        ("a=1\n", {"a": "1"}, "a=1\n"),
        ("a : 1", {"b": "2"}, "a : 1\nb=2\n"),
        ("", {"b": "2"}, "b=2\n"),
        ("a=1,\\\n  2\nb=3\n", {"a": "4"}, "a=4\nb=3\n"),
        ("a=1\nb=2\na=3\n", {"a": "4"}, "a=4\nb=2\n"),
        ("# a=1\\\nb=2\n", {"b": "3"}, "# a=1\\\nb=3\n"),
        ("a=1\r\nb=2\r\n", {"b": "3"}, "a=1\r\nb=3\n"),
    ],
)
def test_amending_properties_keeps_other_lines(text: str, values: dict[str, str], amended: str) -> None:
    assert amend_properties(text, values) == amended
    assert parse_properties(amended) == {**parse_properties(text), **values}


def test_amending_uses_the_line_ends_of_the_parser():
    text = "a=1\fx\nb=2\u20283\n"
    assert parse_properties(amend_properties(text, {"a": "9"})) == {"a": "9", "b": "2\u20283"}
