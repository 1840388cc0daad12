"""What every package shares: ids, errors with their wire codes, limits, metrics, invariants, and the ports.

Does not depend on Kafka's APIs. Every package may import it; it imports nothing of the project.
"""
