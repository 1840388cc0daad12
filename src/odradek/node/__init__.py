"""Builds a node from a configuration and runs it."""
