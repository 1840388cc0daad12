"""Bytes to objects and back: bounded reader, message schemas for every served version, record batches, compression.

Does no I/O and keeps no state.
"""
