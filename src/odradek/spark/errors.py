"""What a pipeline hears when something about its source or sink is wrong: what, why, what to do."""

from __future__ import annotations


class RefusedOption(ValueError):
    """An option of the data source that cannot be accepted, and what to write instead."""


class DataLoss(RuntimeError):
    """Records that a query was to read are no longer in the cluster."""


class TopicMissing(RuntimeError):
    """A topic or partition that was asked for by name does not exist."""


class BadHeader(ValueError):
    """A record whose headers cannot be read."""


class ReadTimeout(RuntimeError):
    """Records that the cluster has promised did not come in time."""


class ClusterUnavailable(RuntimeError):
    """The cluster did not say which topics and offsets it has, however often it was asked."""
