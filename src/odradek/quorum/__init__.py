"""Consensus on the metadata log: a sans-I/O core with KRaft's terms (epochs, votes, high watermark, snapshots, voters).

This package does not know what the records mean.
"""
