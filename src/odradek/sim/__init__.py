"""Deterministic simulation: the real node on virtual time, with a simulated network and disk.

Imported by tests and the command line alone.
"""
