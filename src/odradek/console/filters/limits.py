"""The limits of a filter. They bound the time to parse it and to apply it to one record."""

CHARS_MAX = 2_000
DEPTH_MAX = 40  # of parentheses and `not`
TESTS_MAX = 100
STEPS_MAX = 20  # of one path
PATTERN_CHARS_MAX = 500
PATTERN_BYTES_MAX = 1 << 20  # of memory for one compiled pattern
