"""Shared parts of all pipelines on Spark, both those written with the Streams API and those run as connectors.

Record formats, dead letters, and the life cycle of a query: its checkpoint, its lock, its start, status and stop.
Nothing here knows a graph of steps, or imports a package that does.
"""
