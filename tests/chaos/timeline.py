"""A run as a picture: what was struck when, what was acknowledged and read per second. SVG, no library."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from chaos.history import Event

LEFT, RIGHT, TOP, LANE, CHART = 170, 20, 40, 16, 110
WIDTH = 1400
COLOURS = {"kill": "#c0392b", "pause": "#d68910", "wall": "#7d3c98", "one-way": "#7d3c98", "full": "#1f618d"}
OTHER = "#616a6b"


@dataclass(slots=True)
class Struck:
    kind: str
    said: str
    began: float
    ended: float


def draw(history: Iterable[Event], title: str) -> str:
    struck: list[Struck] = []
    open_ones: list[Struck] = []
    acked: dict[int, int] = {}
    read: dict[int, int] = {}
    whole: list[tuple[float, float]] = []
    last = 1.0
    for event in history:
        last = max(last, event["t"])
        match event["what"]:
            case "fault":
                open_ones.append(Struck(event["kind"], event["said"], event["t"], event["t"]))
            case "healed":
                for each in open_ones:
                    each.ended = event["t"]
                struck += open_ones
                open_ones = []
            case "healthy":
                whole.append((event["t"] - event["after_s"], event["t"]))
            case "acked":
                acked[int(event["t"])] = acked.get(int(event["t"]), 0) + len(event["records"])
            case "polled" if event["who"] != "final":
                read[int(event["t"])] = read.get(int(event["t"]), 0) + len(event["values"])
    return _Page(title, struck + open_ones, acked, read, whole, last).text()


class _Page:
    def __init__(
        self,
        title: str,
        struck: list[Struck],
        acked: dict[int, int],
        read: dict[int, int],
        whole: list[tuple[float, float]],
        last: float,
    ) -> None:
        self._title = title
        self._struck = struck
        self._charts = (("acknowledged/s", acked, "#1e8449"), ("read/s", read, "#2471a3"))
        self._whole = whole
        self._last = last
        self._kinds = sorted({each.kind for each in struck})

    def text(self) -> str:
        lanes_end = TOP + LANE * (len(self._kinds) + 1)
        height = lanes_end + len(self._charts) * (CHART + 30) + 40
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" '
            f'font-size="11"><rect width="100%" height="100%" fill="white"/>',
            f'<text x="10" y="22" font-size="15">{escape(self._title)}</text>',
            *self._lanes(lanes_end + len(self._charts) * (CHART + 30)),
        ]
        for number, (name, values, colour) in enumerate(self._charts):
            parts += self._chart(lanes_end + 20 + number * (CHART + 30), name, values, colour)
        parts += self._axis(height - 25)
        return "\n".join([*parts, "</svg>\n"])

    def _x(self, t: float) -> float:
        return round(LEFT + t / self._last * (WIDTH - LEFT - RIGHT), 1)

    def _lanes(self, bottom: float) -> list[str]:
        parts = []
        for number, kind in enumerate([*self._kinds, "becoming whole"]):
            y = TOP + number * LANE
            parts.append(f'<text x="10" y="{y + 11}">{escape(kind)}</text>')
            parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y + 8}" y2="{y + 8}" stroke="#eeeeee"/>')
        for each in self._struck:
            y = TOP + self._kinds.index(each.kind) * LANE
            colour = COLOURS.get(each.kind.split()[0], OTHER)
            x, wide = self._x(each.began), max(2.0, self._x(each.ended) - self._x(each.began))
            parts.append(
                f'<rect x="{x}" y="{y + 2}" width="{wide:.1f}" height="{LANE - 4}" fill="{colour}">'
                f"<title>{each.began:.1f} s: {escape(each.kind)} {escape(each.said)}</title></rect>"
                f'<rect x="{x}" y="{TOP}" width="{wide:.1f}" height="{bottom - TOP}" fill="{colour}" opacity="0.06"/>'
            )
        y = TOP + len(self._kinds) * LANE
        parts += [
            f'<rect x="{self._x(began)}" y="{y + 2}" width="{max(1.0, self._x(ended) - self._x(began)):.1f}" '
            f'height="{LANE - 4}" fill="#b7950b"><title>{ended - began:.1f} s</title></rect>'
            for began, ended in self._whole
        ]
        return parts

    def _chart(self, top: float, name: str, values: dict[int, int], colour: str) -> list[str]:
        seconds = range(int(self._last) + 1)
        step = max(1, len(seconds) // (WIDTH - LEFT))
        rates = [sum(values.get(second + n, 0) for n in range(step)) / step for second in seconds[::step]]
        highest = max([*rates, 1])
        points = " ".join(
            f"{self._x(number * step)},{top + CHART - rate / highest * CHART:.1f}" for number, rate in enumerate(rates)
        )
        return [
            f'<text x="10" y="{top + 12}">{name}</text>',
            f'<text x="10" y="{top + 26}" fill="#888888">up to {highest:,.0f}</text>',
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{top + CHART}" y2="{top + CHART}" stroke="#cccccc"/>',
            f'<polyline fill="none" stroke="{colour}" points="{points}"/>',
        ]

    def _axis(self, y: float) -> list[str]:
        every = next(each for each in (5, 10, 30, 60, 120, 300, 600, 3600) if self._last / each <= 20 or each == 3600)
        return [
            f'<text x="{self._x(t)}" y="{y}" text-anchor="middle">{t // 60}:{t % 60:02}</text>'
            for t in range(0, int(self._last) + 1, every)
        ]
