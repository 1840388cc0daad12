"""Where the trucks drive: towns, the routes between them, and the lines of a map that needs no tiles.

A point is (latitude, longitude) in degrees. Rivers and borders are drawn from a few points each: enough to recognise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate, pairwise

Point = tuple[float, float]

MILES_PER_DEGREE = 69.0
# The part of the world on the page: south, west, north, east.
BOUNDS = (34.2, -97.9, 43.4, -85.2)

TOWNS: dict[str, Point] = {
    "Bloomington": (40.48, -88.99),
    "Burlington": (40.81, -91.11),
    "Cape Girardeau": (37.31, -89.55),
    "Cedar Rapids": (41.98, -91.67),
    "Champaign": (40.12, -88.24),
    "Chicago": (41.88, -87.70),
    "Columbia": (38.95, -92.33),
    "Davenport": (41.52, -90.58),
    "Des Moines": (41.59, -93.62),
    "Effingham": (39.12, -88.54),
    "Fort Smith": (35.39, -94.40),
    "Galesburg": (40.95, -90.37),
    "Hannibal": (39.71, -91.36),
    "Indianapolis": (39.77, -86.16),
    "Iowa City": (41.66, -91.53),
    "Jonesboro": (35.84, -90.70),
    "Joplin": (37.08, -94.51),
    "Kansas City": (39.10, -94.58),
    "Lafayette": (40.42, -86.88),
    "Little Rock": (34.75, -92.29),
    "Louisville": (38.25, -85.76),
    "Madison": (43.07, -89.40),
    "Memphis": (35.15, -90.05),
    "Milwaukee": (43.04, -87.98),
    "Mount Vernon": (38.32, -88.90),
    "Nashville": (36.16, -86.78),
    "Nevada": (37.84, -94.35),
    "Omaha": (41.26, -95.93),
    "Paducah": (37.08, -88.60),
    "Peoria": (40.69, -89.59),
    "Rockford": (42.27, -89.09),
    "Rolla": (37.95, -91.77),
    "Saint Louis": (38.63, -90.24),
    "Sikeston": (36.88, -89.59),
    "Springfield IL": (39.78, -89.65),
    "Springfield MO": (37.21, -93.29),
    "Terre Haute": (39.47, -87.41),
    "Topeka": (39.05, -95.68),
    "Tulsa": (36.15, -95.99),
    "Wichita": (37.69, -97.34),
}

# The towns whose names stand on the map.
CITIES = (
    "Chicago", "Des Moines", "Indianapolis", "Kansas City", "Little Rock", "Louisville", "Madison", "Memphis",
    "Milwaukee", "Nashville", "Omaha", "Peoria", "Saint Louis", "Springfield MO", "Tulsa", "Wichita",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Route:
    """A road through towns, driven both ways."""

    id: int
    name: str
    points: tuple[Point, ...]
    miles_to: tuple[float, ...]  # from the beginning to each point

    @property
    def miles(self) -> float:
        return self.miles_to[-1]

    def position(self, miles: float) -> Point:
        """Where a truck is that has driven so far from the beginning."""
        for (here, there), (begun, ended) in zip(pairwise(self.points), pairwise(self.miles_to), strict=True):
            if miles <= ended:
                part = (miles - begun) / (ended - begun)
                return here[0] + (there[0] - here[0]) * part, here[1] + (there[1] - here[1]) * part
        return self.points[-1]


def miles_between(a: Point, b: Point) -> float:
    """Good to a percent at these distances: a degree of longitude shrinks with the latitude."""
    east = (b[1] - a[1]) * math.cos(math.radians((a[0] + b[0]) / 2))
    return math.hypot(b[0] - a[0], east) * MILES_PER_DEGREE


def _route(route_id: int, *towns: str) -> Route:
    points = tuple(TOWNS[town] for town in towns)
    miles_to = tuple(accumulate((miles_between(a, b) for a, b in pairwise(points)), initial=0.0))
    return Route(route_id, f"{towns[0]} to {towns[-1]}", points, miles_to)


ROUTES: tuple[Route, ...] = (
    _route(101, "Des Moines", "Iowa City", "Davenport", "Chicago"),
    _route(102, "Saint Louis", "Springfield IL", "Bloomington", "Chicago"),
    _route(103, "Saint Louis", "Cape Girardeau", "Sikeston", "Memphis"),
    _route(104, "Saint Louis", "Rolla", "Springfield MO", "Joplin", "Tulsa"),
    _route(105, "Joplin", "Nevada", "Kansas City"),
    _route(106, "Memphis", "Little Rock"),
    _route(107, "Peoria", "Galesburg", "Burlington", "Iowa City", "Cedar Rapids"),
    _route(108, "Springfield IL", "Saint Louis", "Columbia", "Kansas City"),
    _route(109, "Springfield IL", "Hannibal", "Columbia", "Kansas City"),
    _route(110, "Wichita", "Tulsa", "Fort Smith", "Little Rock"),
    _route(111, "Omaha", "Des Moines"),
    _route(112, "Kansas City", "Omaha"),
    _route(113, "Wichita", "Topeka", "Kansas City"),
    _route(114, "Indianapolis", "Terre Haute", "Effingham", "Saint Louis"),
    _route(115, "Indianapolis", "Lafayette", "Chicago"),
    _route(116, "Chicago", "Milwaukee", "Madison"),
    _route(117, "Chicago", "Champaign", "Effingham", "Mount Vernon", "Paducah", "Nashville"),
    _route(118, "Louisville", "Nashville", "Memphis"),
    _route(119, "Springfield MO", "Jonesboro", "Memphis"),
    _route(120, "Madison", "Rockford", "Davenport", "Cedar Rapids"),
)

RIVERS: dict[str, tuple[Point, ...]] = {
    "Mississippi": (
        (44.05, -91.64), (43.80, -91.25), (43.50, -91.22), (43.05, -91.15), (42.78, -91.08), (42.50, -90.65),
        (42.07, -90.17), (41.84, -90.19), (41.58, -90.36), (41.45, -90.70), (41.42, -91.04), (41.16, -91.01),
        (40.81, -91.10), (40.63, -91.32), (40.39, -91.41), (39.94, -91.42), (39.71, -91.35), (39.45, -91.04),
        (39.25, -90.73), (38.95, -90.68), (38.89, -90.18), (38.63, -90.18), (38.22, -90.37), (37.98, -90.03),
        (37.91, -89.83), (37.66, -89.51), (37.30, -89.51), (36.98, -89.14), (36.62, -89.35), (36.58, -89.52),
        (36.18, -89.67), (35.80, -89.74), (35.53, -89.93), (35.14, -90.08), (34.98, -90.30), (34.75, -90.52),
        (34.52, -90.59), (34.20, -90.90), (33.95, -91.05), (33.40, -91.13),
    ),
    "Missouri": (
        (42.87, -97.38), (42.70, -96.95), (42.50, -96.42), (42.00, -96.22), (41.60, -96.10), (41.26, -95.92),
        (40.90, -95.83), (40.58, -95.77), (40.26, -95.50), (40.00, -95.32), (39.77, -94.89), (39.56, -95.11),
        (39.32, -94.91), (39.12, -94.61), (39.19, -93.88), (39.21, -93.52), (39.40, -93.05), (39.23, -92.85),
        (38.98, -92.74), (38.58, -92.17), (38.70, -91.44), (38.56, -91.01), (38.78, -90.48), (38.81, -90.12),
    ),
    "Ohio": (
        (36.98, -89.14), (37.15, -88.75), (37.09, -88.60), (37.30, -88.48), (37.47, -88.10), (37.80, -88.02),
        (37.95, -87.58), (37.78, -87.12), (37.93, -86.75), (38.00, -86.40), (38.20, -85.90), (38.28, -85.74),
        (38.73, -85.38),
    ),
    "Wabash": (
        (37.80, -88.02), (38.15, -87.95), (38.41, -87.74), (38.68, -87.53), (39.05, -87.57), (39.35, -87.53),
        (39.47, -87.42), (39.95, -87.42), (40.42, -86.90), (40.76, -86.36), (40.80, -85.85),
    ),
    "Illinois": (
        (41.52, -88.08), (41.34, -88.84), (41.32, -89.20), (40.92, -89.45), (40.69, -89.57), (40.30, -90.06),
        (40.01, -90.43), (39.50, -90.57), (38.97, -90.45),
    ),
    "Arkansas": (
        (38.05, -97.95), (37.69, -97.35), (37.06, -97.04), (36.50, -96.75), (36.14, -96.01), (35.75, -95.37),
        (35.39, -94.43), (35.47, -93.80), (35.28, -93.13), (34.75, -92.27), (34.23, -92.00), (33.78, -91.10),
    ),
    "Tennessee": (
        (37.08, -88.60), (36.85, -88.20), (36.40, -88.03), (35.60, -88.03), (35.05, -88.25), (34.85, -87.60),
    ),
    "Des Moines": (
        (42.50, -94.20), (42.05, -93.88), (41.58, -93.61), (41.32, -93.10), (41.02, -92.41), (40.72, -91.96),
        (40.39, -91.42),
    ),
}  # fmt: skip

LAKE_MICHIGAN: tuple[Point, ...] = (
    (44.60, -87.45), (44.10, -87.65), (43.75, -87.71), (43.38, -87.86), (43.04, -87.88), (42.73, -87.78),
    (42.36, -87.82), (42.05, -87.67), (41.89, -87.61), (41.73, -87.53), (41.62, -87.33), (41.63, -87.10),
    (41.72, -86.90), (41.92, -86.60), (42.11, -86.48), (42.40, -86.28), (42.78, -86.21), (43.23, -86.34),
    (43.60, -86.53), (43.95, -86.46), (44.60, -86.25),
)  # fmt: skip

BORDERS: tuple[tuple[Point, ...], ...] = (
    ((43.50, -96.60), (43.50, -91.22)),
    ((42.50, -96.45), (43.10, -96.45), (43.50, -96.60), (44.00, -96.45)),
    ((43.00, -98.60), (42.87, -97.38)),
    ((40.58, -95.77), (40.61, -91.73), (40.39, -91.42)),
    ((42.50, -90.65), (42.50, -87.81)),
    ((40.00, -99.00), (40.00, -95.32)),
    ((39.12, -94.61), (36.50, -94.62), (35.39, -94.43), (33.64, -94.48)),
    ((37.00, -99.00), (37.00, -94.62)),
    ((36.50, -94.62), (36.50, -90.15), (36.27, -90.08), (36.00, -90.37), (36.00, -89.70)),
    ((36.50, -89.50), (36.50, -88.06), (36.66, -88.06), (36.64, -85.00)),
    ((34.99, -90.30), (35.00, -85.00)),
    ((35.00, -88.20), (33.50, -88.30)),
    ((34.98, -85.61), (33.50, -85.35)),
    ((39.35, -87.53), (41.71, -87.53)),
    ((41.76, -86.82), (41.76, -84.80)),
)

# Where a state's letters stand.
STATES: dict[str, Point] = {
    "IOWA": (42.55, -92.8),
    "MISSOURI": (38.25, -93.35),
    "ILLINOIS": (41.2, -89.25),
    "ARKANSAS": (35.35, -92.75),
    "KANSAS": (39.35, -97.1),
    "NEBRASKA": (40.72, -96.85),
    "OKLAHOMA": (35.35, -96.3),
    "INDIANA": (40.85, -86.1),
    "WISCONSIN": (43.6, -89.9),
    "KENTUCKY": (37.4, -87.3),
    "TENNESSEE": (35.3, -86.9),
}


def as_json() -> dict[str, object]:
    """What the page draws once."""
    return {
        "bounds": BOUNDS,
        "rivers": list(RIVERS.values()),
        "lake": LAKE_MICHIGAN,
        "borders": BORDERS,
        "states": STATES,
        "cities": {name: TOWNS[name] for name in CITIES},
        "roads": [route.points for route in ROUTES],
    }
