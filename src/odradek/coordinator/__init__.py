"""The engine that keeps a replicated state machine per internal partition: load, write, wait for commit, reply.

Writes only through its port, `PartitionWriter`.
"""
