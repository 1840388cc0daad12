"""Leader and follower state of a partition: high watermark, leader epochs, in-sync replicas, waiting readers.

This package knows nothing of groups or transactions.
"""
