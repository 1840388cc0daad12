"""Errors of the source and the sink. Each message says what is wrong, why, and what to do."""

from __future__ import annotations


class RefusedOption(ValueError):
    """An option of the data source that cannot be accepted, and what to write instead."""


class DataLoss(RuntimeError):
    """Records that a query must read are no longer in the cluster."""


class TopicMissing(RuntimeError):
    """A topic or partition that the options name does not exist."""


class BadHeader(ValueError):
    """A record whose headers cannot be read."""


class ReadTimeout(RuntimeError):
    """Records of a planned range did not arrive within the poll timeout."""


class ClusterUnavailable(RuntimeError):
    """The cluster did not return its topics or offsets, after all retries."""


class CheckpointMismatch(RuntimeError):
    """The checkpoint of a query does not fit the results that its sink has written."""
