"""The topics of the demo, and who writes them."""

from __future__ import annotations

POSITIONS = "truck_events"
SPEEDS = "truck_speed_events"
DRIVERS = "trucking.public.driver"  # compacted: a changelog of the driver table
INPUTS = (POSITIONS, SPEEDS, DRIVERS)

DANGEROUS = "dangerous_driving"
ENRICHED = "dangerous_driving_and_driver"
STATISTICS = "driver_stats"
ALERTS = "driver_alerts"
DEAD_LETTERS = "trucking.dlq"
OUTPUTS = (DANGEROUS, ENRICHED, STATISTICS, ALERTS, DEAD_LETTERS)

# What shows that the application is at work; alerts and dead letters come when there is a reason.
STEADY = (DANGEROUS, ENRICHED, STATISTICS)

PARTITIONS = 2  # as many as the cores the demo is made for
COMPACTED = (DRIVERS, STATISTICS)
