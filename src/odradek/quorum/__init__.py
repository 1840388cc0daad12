"""Agreeing on the metadata log: a sans-I/O core in KRaft's terms (epochs, votes, high watermark, snapshots, voters).

Knows nothing of what the records mean.
"""
