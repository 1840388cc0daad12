"""Object names are parsed, quoted and matched as in JMX."""

from __future__ import annotations

import pytest

from odradek.base.limits import object_name_chars_max
from odradek.monitor.jolokia.object_name import MalformedName, matcher, parsed, quoted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("kafka.server:type=A,name=B", "kafka.server:type=A,name=B"),
        ("kafka.server:type=A,name=B*", "kafka.server:name=B*,type=A"),  # patterns are canonical
        ("kafka.server:*,type=A", "kafka.server:type=A,*"),
        ("*:*", "*:*"),
        ("", "*:*"),
        ("a:b=", "a:b="),
        (':type="x,=:\\"\\*"', ':type="x,=:\\"\\*"'),
        ('a:z=1,b="x*"', 'a:b="x*",z=1'),
    ],
)
def test_a_name_is_shown_as_jolokia_shows_it(text, shown):
    assert str(parsed(text)) == shown


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("bad", "Key properties cannot be empty"),
        ("bad:", "Key properties cannot be empty"),
        ("bad:x", "Unterminated key property part"),
        ("a:b=c,d", "Unterminated key property part"),
        ("a:b=c,", "Invalid ending comma"),
        ("a:b=c,b=d", "key `b' already defined"),
        ("a:=c", "Invalid key (empty)"),
        ("a:b=c=d", "Invalid character '=' in value part of property"),
        ("a:b=c:d", "Invalid character ':' in value part of property"),
        ("a:b*=c", "Invalid character '*' in key part of property"),
        ("a:b=c,*,*", "Cannot have several '*' characters in pattern property list"),
        ("a\nb:c=d", "Invalid character '\\n' in domain name"),
        ("a:b=c\nd", "Invalid character '\\n' in value part of property"),
        ('a:b="c', "Unterminated quoted value"),
        ('a:b="c"d', "Invalid character after a quoted value"),
        ('a:b="c\\d"', "Invalid escape sequence in quoted value"),
        ("a:b=" + "c" * object_name_chars_max, f"An object name has at most {object_name_chars_max} characters"),
    ],
)
def test_a_malformed_name_is_refused_with_the_reason(text, problem):
    with pytest.raises(MalformedName) as refused:
        parsed(text)
    assert str(refused.value).startswith(problem)


@pytest.mark.parametrize(
    "label", ["orders", "a.b-c_1", "a b", "a,b", 'say "x"', "back\\slash", "a*b?", "two\nlines", "ü/x"]
)
def test_a_quoted_label_is_a_value_and_no_pattern(label):
    name = parsed(f"a:topic={quoted(label)},partition=0")
    assert name.properties == (("topic", quoted(label)), ("partition", "0"))
    assert not name.is_pattern


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("*", "", True),
        ("a*c", "abbc", True),
        ("a*c", "abcd", False),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("*ab*ab", "abab", True),
        ("*ab*ab", "ab", False),
        ("a*b*c", "acb", False),
        ("*.log", "x.log", True),
        ("*.log", "xxlog", False),
        ("**", "x\ny", True),
        ("a*a", "a", False),
    ],
)
def test_wildcards(pattern, text, matches):
    assert bool(matcher(pattern)(text)) is matches


def test_a_hostile_pattern_takes_little_time():
    """With backtracking this would not end."""
    assert not matcher("*a" * 200 + "b")("a" * 250)
