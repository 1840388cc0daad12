"""Metrics of every process: what is measured (`catalogue`), the instruments, one registry, and its text formats.

Lies directly above `base`, so that brokers, clients, pipelines and the command line can all use it. It reads no clock
and serves no HTTP: the process that owns a registry passes the time in, and `web.monitoring` serves the result.
"""
