"""The trucking application of the demo, written for Quix Streams: the same topics, and the same rows if possible.

    python trucking.py BOOTSTRAP STATE_DIR

The join of violations and speeds uses custom code with a state. Quix Streams' interval join misses a partner that is
processed first but has a later time, and its left join writes a row at once, before the partner can arrive.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import orjson
from quixstreams import Application, State

Row = dict[str, Any]
POSITION = (
    "eventTime",
    "truckId",
    "driverId",
    "routeId",
    "route",
    "eventType",
    "latitude",
    "longitude",
    "correlationId",
)
DRIVER = ("driverName", "certified", "wagePlan")
WITHIN_MS, GRACE_MS = 1_000, 3_000
COUNTED = {
    "overspeed": "Overspeed",
    "laneDeparture": "Lane Departure",
    "followingDistance": "Unsafe following distance",
    "tailDistance": "Unsafe tail distance",
}


def parsed(value: bytes) -> tuple[bytes, Row | None]:
    try:
        whole = orjson.loads(value)
    except ValueError:
        return value, None
    return value, {name: whole[name] for name in POSITION}


def counted(row: Row, state: State) -> Row:
    counts = state.get("counts") or dict.fromkeys(("driverId", "events", "violations", *COUNTED), 0)
    counts["driverId"] = row["driverId"]
    counts["events"] += 1
    kind = row["eventType"]
    counts["violations"] += kind != "Normal"
    for name, of in COUNTED.items():
        counts[name] += kind == of
    state.set("counts", counts)
    return counts


def paired(value: Row, _key: str, time_ms: int, _headers: object, state: State) -> list[Row]:
    """A left join of a driver's violations and speeds within a second, for both sides in any order."""
    waiting = state.get("waiting") or {"events": {}, "speeds": {}}
    events, speeds = waiting["events"], waiting["speeds"]
    name = f"{value['truckId']}/{value['correlationId']}"
    found = []
    if "speed" in value:
        if name in events and abs(events[name][0] - time_ms) <= WITHIN_MS:
            found.append({**events.pop(name)[1], "speed": value["speed"]})
        else:
            speeds[name] = time_ms, value["speed"]
    elif name in speeds and abs(speeds[name][0] - time_ms) <= WITHIN_MS:
        found.append({**value, "speed": speeds.pop(name)[1]})
    else:
        events[name] = time_ms, value
    closed_ms = max(waiting.get("newest_ms", 0), time_ms) - WITHIN_MS - GRACE_MS
    late = [name for name, (at_ms, _) in events.items() if at_ms < closed_ms]
    found += [{**events.pop(name)[1], "speed": None} for name in late]
    waiting = {
        "events": events,
        "speeds": {name: pair for name, pair in speeds.items() if pair[0] >= closed_ms},
        "newest_ms": closed_ms + WITHIN_MS + GRACE_MS,
    }
    state.set("waiting", waiting)
    return found


def with_driver(row: Row, change: Row | None) -> Row:
    driver = change["after"] if change else {}
    return {**row, **{name: driver.get(name) for name in DRIVER}}


def first(row: Row) -> Row:
    return spree({"driverId": row["driverId"], "violations": 0, "overspeeds": 0, "kinds": []}, row)


def spree(before: Row, row: Row) -> Row:
    return {
        "driverId": before["driverId"],
        "violations": before["violations"] + 1,
        "overspeeds": before["overspeeds"] + (row["eventType"] == "Overspeed"),
        "kinds": sorted({*before["kinds"], row["eventType"]}),
    }


def closed(window: Row) -> Row:
    return {**window["value"], "window_start": iso(window["start"]), "window_end": iso(window["end"])}


def judged(row: Row) -> Row:
    reckless = "Reckless driving" if len(row["kinds"]) > 1 else "Dangerous driving"
    return {**row, "alert": "High speed" if row["overspeeds"] >= 5 else reckless}


def iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def define(app: Application) -> None:
    text = {"key_deserializer": "str", "key_serializer": "str"}
    positions_topic = app.topic("truck_events", value_deserializer="bytes", **text)
    speeds = app.dataframe(app.topic("truck_speed_events", **text))
    drivers = app.dataframe(app.topic("trucking.public.driver", **text)).group_by(
        lambda change: str(change["after"]["id"]), name="driver", **text
    )

    both = app.dataframe(positions_topic).apply(parsed)
    bad = both.filter(lambda pair: pair[1] is None).apply(lambda pair: pair[0])
    bad.to_topic(app.topic("trucking.dlq", value_serializer="bytes", **text))
    positions = both.filter(lambda pair: pair[1] is not None).apply(lambda pair: pair[1])

    dangerous = positions.filter(lambda row: row["eventType"] != "Normal")
    dangerous.to_topic(app.topic("dangerous_driving", **text))
    positions.apply(counted, stateful=True).to_topic(app.topic("driver_stats", **text))

    measured = dangerous.concat(speeds).apply(paired, expand=True, stateful=True, metadata=True)
    enriched = measured.join_asof(drivers, how="left", on_merge=with_driver, name="drivers-of-events")
    enriched.to_topic(app.topic("dangerous_driving_and_driver", **text))

    sprees = dangerous.tumbling_window(10_000, grace_ms=3_000).reduce(spree, first).final("partition")
    alerts = sprees.filter(lambda window: window["value"]["violations"] >= 5).apply(closed)
    alerts = alerts.join_asof(drivers, how="left", on_merge=with_driver, name="drivers-of-alerts").apply(judged)
    alerts.to_topic(app.topic("driver_alerts", **text))


def main() -> None:
    bootstrap, state_dir = sys.argv[1:]
    app = Application(
        broker_address=bootstrap,
        consumer_group="trucking-quix",
        auto_offset_reset="earliest",
        commit_interval=1.0,
        consumer_poll_timeout=0.1,  # how long it waits for more records before it processes the records it has
        state_dir=state_dir,
        loglevel="WARNING",
    )
    define(app)
    app.run()


if __name__ == "__main__":
    main()
