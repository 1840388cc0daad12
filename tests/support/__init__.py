"""Shared code of several test suites: a broker process, a wiretap, and more."""
