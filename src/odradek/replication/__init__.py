"""Leader and follower state of a partition: high watermark, leader epochs, in-sync replicas, waiting readers.

Knows nothing of groups or transactions.
"""
