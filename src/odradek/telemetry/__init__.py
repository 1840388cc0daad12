"""Client telemetry (KIP-714): which clients push which of their metrics, and the metrics that they pushed. No I/O."""
