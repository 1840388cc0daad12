"""What the console knows of a cluster: a thread reads it, and publishes it as immutable snapshots."""
