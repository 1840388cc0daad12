"""Mirrors topics, their configs and the offsets of consumer groups from another cluster, as MirrorMaker 2 does."""
