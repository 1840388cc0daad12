"""Measures a node: its requests, and what its broker, its logs, its groups and its metadata quorum are like.

Only this package knows the metrics of `monitor.catalogue`; what it measures does not know this package. It reads the
state of the node when a snapshot is collected, on the event loop.
"""
