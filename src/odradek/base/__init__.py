"""The words every room shares: ids, errors with their wire codes, limits, metrics, invariants, and the ports.

Knows nothing of Kafka's APIs. Everything else may import it; it imports nothing of the project.
"""
