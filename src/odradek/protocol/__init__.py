"""Bytes to objects and back: bounded reader, message schemas for every served version, record batches, compression.

This package does no I/O and keeps no state.
"""
