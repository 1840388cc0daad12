"""The trucking application: who drives dangerously, how fast, how often, and who is it?

An ordinary application of the Streams API: `odradek streams run` starts it, on this machine or on a cluster. The names
of the topics are written out, as in a user's application.
"""

# ruff: noqa: N815 (the fields are those of the records)

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from odradek.streams import App, F, tumbling


@dataclass
class Position:
    eventTime: datetime
    truckId: int
    driverId: int
    routeId: int
    route: str
    eventType: str
    latitude: float
    longitude: float
    correlationId: int  # the same for a position and the speed measured with it


@dataclass
class Speed:
    eventTime: datetime
    truckId: int
    driverId: int
    speed: int
    correlationId: int


@dataclass
class Driver:
    id: int
    driverName: str
    certified: bool
    wagePlan: str


app = App("trucking", every="700 milliseconds")

positions = app.stream("truck_events", schema=Position, time="eventTime", late="3 seconds", dlq="trucking.dlq")
speeds = app.stream("truck_speed_events", schema=Speed, time="eventTime", late="3 seconds")
drivers = app.table("trucking.public.driver", key="id", schema=Driver, format="debezium")

dangerous = positions[positions.eventType != "Normal"]
dangerous.to("dangerous_driving", key="driverId")

statistics = positions.group_by("driverId").agg(
    events=F.count("*"),
    violations=F.count_if(positions.eventType != "Normal"),
    overspeed=F.count_if(positions.eventType == "Overspeed"),
    laneDeparture=F.count_if(positions.eventType == "Lane Departure"),
    followingDistance=F.count_if(positions.eventType == "Unsafe following distance"),
    tailDistance=F.count_if(positions.eventType == "Unsafe tail distance"),
)
statistics.to("driver_stats")
statistics.materialize("statistics")

speed = speeds.drop("eventTime")
measured = dangerous.join(speed, on=["driverId", "truckId", "correlationId"], within="1 second", how="left")
enriched = measured.join(drivers, on={"driverId": "id"}, how="left")
enriched.to("dangerous_driving_and_driver", key="driverId")

sprees = (
    dangerous.group_by("driverId")
    .window(tumbling("10 seconds", grace="3 seconds"))
    .agg(
        violations=F.count("*"),
        overspeeds=F.count_if(dangerous.eventType == "Overspeed"),
        kinds=F.array_sort(F.collect_set("eventType")),
    )
)
alerts = sprees[sprees.violations >= 5].join(drivers, on={"driverId": "id"}, how="left")
alerts.with_columns(
    alert="if(overspeeds >= 5, 'High speed', if(size(kinds) > 1, 'Reckless driving', 'Dangerous driving'))"
).to("driver_alerts", key="driverId")

if __name__ == "__main__":
    app.run()
