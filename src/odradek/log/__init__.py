"""One partition on one disk: segments, indexes, producer state, recovery, retention.

In Kafka 4's own file formats. Knows nothing of other brokers, groups or sockets.
"""
