"""Metrics leave a process: /metrics of a process without other HTTP, and pushes by OTLP or DogStatsD.

Each push has its own thread, which waits for the collector. A collector that does not answer costs a connection attempt
now and then, and one line in the log.
"""
