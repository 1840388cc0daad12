"""What runs inside Spark's Python workers: one run of one task, until it is idle, asked to stop, or fails."""
