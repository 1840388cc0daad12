"""What brokers ask each other about transactions: markers for partitions, and which partitions are part of one."""
