"""Decisions on the cluster image, as pure functions that return metadata records.

Touches no disk and no socket.
"""
