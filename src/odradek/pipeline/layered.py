"""Boxes and arrows laid out from left to right: layers, few crossings, straight lines where possible.

The classic method in four steps: a layer for each box (longest path), an order in each layer (barycentres, the order
with the fewest crossings wins), heights (each box as near to its neighbours as the others let it), and routes for
arrows through the layers they cross. Pure: numbers in, numbers out; the same graph always gives the same picture.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

LAYER_GAP = 64.0
BOX_GAP = 22.0
LANE_GAP = 14.0  # beside an arrow that passes a layer
PORT_GAP = 12.0
SWEEPS = 12
STARTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    key: str
    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    source: str
    target: str
    points: tuple[tuple[float, float], ...]  # from the source's side to the target's, with the lanes in between


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    places: Mapping[str, Place]
    routes: Sequence[Route]
    width: float
    height: float


Edge = tuple[str, str]


def arrange(boxes: Sequence[Box], edges: Sequence[Edge]) -> Arrangement:
    sized = {box.key: box for box in boxes}
    forward = _without_circles(list(sized), list(dict.fromkeys(edge for edge in edges if edge[0] != edge[1])))
    layer_of = _layers(list(sized), list(forward.values()))
    lanes = {edge: _lane(edge, layer_of) for edge in forward.values()}
    layers: list[list[str]] = [[] for _ in range(max(layer_of.values(), default=-1) + 1)]
    for key in sized:
        layers[layer_of[key]].append(key)
    for chain in lanes.values():
        for lane in chain[1:-1]:
            layers[int(lane.rpartition("@")[2])].append(lane)
    links = [link for chain in lanes.values() for link in itertools.pairwise(chain)]
    layers = _ordered(layers, links)
    centre = _heights(layers, links, sized)
    return _drawn(layers, centre, sized, forward, lanes)


def _without_circles(keys: Sequence[str], edges: Sequence[Edge]) -> dict[Edge, Edge]:
    """Each edge as it is, or turned round where it would close a circle."""
    after = defaultdict(list)
    for source, target in edges:
        after[source].append(target)
    turned: dict[Edge, Edge] = {}
    done, open_path = set(), set()

    def visit(key: str) -> None:
        open_path.add(key)
        for target in after[key]:
            turned[key, target] = (target, key) if target in open_path else (key, target)
            if target not in done and target not in open_path:
                visit(target)
        open_path.remove(key)
        done.add(key)

    for key in keys:
        if key not in done:
            visit(key)
    return {edge: turned[edge] for edge in edges}


def _layers(keys: Sequence[str], edges: Sequence[Edge]) -> dict[str, int]:
    """As far left as its inputs allow; a source right before what it feeds, so that no arrow is longer than it must."""
    before, after = defaultdict(list), defaultdict(list)
    for source, target in edges:
        before[target].append(source)
        after[source].append(target)
    layer: dict[str, int] = {}

    def depth(key: str) -> int:
        if key not in layer:
            layer[key] = max((depth(source) + 1 for source in before[key]), default=0)
        return layer[key]

    for key in keys:
        depth(key)
    for key in keys:
        if not before[key] and after[key]:
            layer[key] = min(layer[target] for target in after[key]) - 1
    return layer


def _lane(edge: Edge, layer_of: Mapping[str, int]) -> list[str]:
    source, target = edge
    crossed = range(layer_of[source] + 1, layer_of[target])
    return [source, *(f"{source}\0{target}@{layer}" for layer in crossed), target]


def _ordered(layers: list[list[str]], links: Sequence[Edge]) -> list[list[str]]:
    """Sweeping finds the best order nearby, so it is tried from several beginnings; the first of equals wins."""
    before, after = _neighbours(links)
    turned = [[layer[turn:] + layer[:turn] for layer in layers] for turn in range(STARTS)]
    starts = [*turned, *([layer[::-1] for layer in start] for start in turned)]
    tried = [order for start in starts for order in _swept(start, before, after)]
    return min(tried, key=lambda order: _crossings(order, after))


def _swept(
    layers: list[list[str]], before: Mapping[str, list[str]], after: Mapping[str, list[str]]
) -> Iterator[list[list[str]]]:
    yield list(layers)
    for sweep in range(SWEEPS):
        rightwards = sweep % 2 == 0
        for index in range(1, len(layers)) if rightwards else reversed(range(len(layers) - 1)):
            beside, neighbours = (layers[index - 1], before) if rightwards else (layers[index + 1], after)
            layers[index] = _by_barycentre(layers[index], beside, neighbours)
        yield list(layers)


def _neighbours(links: Sequence[Edge]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    before, after = defaultdict(list), defaultdict(list)
    for source, target in links:
        before[target].append(source)
        after[source].append(target)
    return before, after


def _by_barycentre(layer: list[str], beside: list[str], neighbours: Mapping[str, list[str]]) -> list[str]:
    """Boxes without a neighbour on that side keep their place, the others are sorted around them."""
    position = {key: index for index, key in enumerate(beside)}
    weight = {key: fmean(position[other] for other in neighbours[key]) for key in layer if neighbours.get(key)}
    movable = iter(sorted(weight, key=lambda key: weight[key]))
    return [next(movable) if key in weight else key for key in layer]


def _crossings(layers: Sequence[Sequence[str]], after: Mapping[str, list[str]]) -> int:
    count = 0
    for left, right in itertools.pairwise(layers):
        position = {key: index for index, key in enumerate(right)}
        ends = [position[target] for key in left for target in sorted(after.get(key, ()), key=position.__getitem__)]
        count += sum(1 for i, end in enumerate(ends) for other in ends[:i] if other > end)
    return count


def _heights(layers: list[list[str]], links: Sequence[Edge], sized: Mapping[str, Box]) -> dict[str, float]:
    """The centre of each box and lane: near its neighbours' centres, without overlap in its layer."""
    before, after = _neighbours(links)

    def half(key: str) -> float:
        return sized[key].height / 2 if key in sized else 0.0

    def gap(upper: str, lower: str) -> float:
        between = BOX_GAP if upper in sized and lower in sized else LANE_GAP
        return half(upper) + between + half(lower)

    gaps = [[0.0, *(gap(*pair) for pair in itertools.pairwise(layer))] for layer in layers]
    centre: dict[str, float] = {}
    for layer, spaces in zip(layers, gaps, strict=True):
        wanted = [0.0] * len(layer)
        centre |= dict(zip(layer, _spread(wanted, [1.0] * len(layer), spaces), strict=True))
    for sweep in range(2 * SWEEPS):
        sides = (before, after) if sweep % 2 == 0 else (after, before)
        order = range(len(layers)) if sweep % 2 == 0 else reversed(range(len(layers)))
        for index in order:
            layer = layers[index]
            wanted, weights = [], []
            for key in layer:
                near = sides[0].get(key) or sides[1].get(key) or [key]
                wanted.append(fmean(centre[other] for other in near))
                weights.append(8.0 if key not in sized else 1.0)  # a lane that bends is uglier than a box off its axis
            centre |= dict(zip(layer, _spread(wanted, weights, gaps[index]), strict=True))
    return centre


def _spread(wanted: Sequence[float], weights: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """The places nearest to the wanted ones (least squares) that keep order and gaps: pool adjacent violators."""
    offset, total = [], 0.0
    for gap in gaps:
        total += gap
        offset.append(total)
    pools: list[tuple[float, float, int]] = []  # weighted mean, weight, how many
    for want, shift, weight in zip(wanted, offset, weights, strict=True):
        pools.append((want - shift, weight, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (mean, heavy, many), (other, light, few) = pools.pop(), pools.pop()
            pools.append(((mean * heavy + other * light) / (heavy + light), heavy + light, many + few))
    levels = [mean for mean, _, many in pools for _ in range(many)]
    return [level + shift for level, shift in zip(levels, offset, strict=True)]


def _drawn(
    layers: list[list[str]],
    centre: Mapping[str, float],
    sized: Mapping[str, Box],
    forward: Mapping[Edge, Edge],
    lanes: Mapping[Edge, list[str]],
) -> Arrangement:
    top = min((centre[key] - sized[key].height / 2 for key in sized), default=0.0)
    left = 0.0
    x_of: dict[str, float] = {}
    width_of: list[float] = []
    for layer in layers:
        wide = max((sized[key].width for key in layer if key in sized), default=0.0)
        width_of.append(wide)
        x_of |= dict.fromkeys(layer, left)
        left += wide + LAYER_GAP
    middle = {key: centre[key] - top for key in centre}
    places = {
        key: Place(
            x=x_of[key] + (width_of[index] - sized[key].width) / 2,
            y=middle[key] - sized[key].height / 2,
            width=sized[key].width,
            height=sized[key].height,
        )
        for index, layer in enumerate(layers)
        for key in layer
        if key in sized
    }
    passes = {
        lane: [(x_of[lane], middle[lane]), (x_of[lane] + width_of[index], middle[lane])]
        for index, layer in enumerate(layers)
        for lane in layer
        if lane not in sized
    }
    leaving, arriving = _ports(list(lanes.values()), middle)
    routes = []
    for edge, laid in forward.items():
        chain = lanes[laid]
        first, last = places[chain[0]], places[chain[-1]]
        points = [(first.x + first.width, middle[chain[0]] + leaving[laid])]
        for lane in chain[1:-1]:
            points += passes[lane]
        points.append((last.x, middle[chain[-1]] + arriving[laid]))
        routes.append(Route(source=edge[0], target=edge[1], points=tuple(points if edge == laid else points[::-1])))
    bottom = max((place.y + place.height for place in places.values()), default=0.0)
    return Arrangement(places=places, routes=routes, width=max(left - LAYER_GAP, 0.0), height=bottom)


def _ports(chains: Sequence[list[str]], middle: Mapping[str, float]) -> tuple[dict[Edge, float], dict[Edge, float]]:
    """Where on a side each arrow leaves or arrives: in the order of where it goes, so that none cross at the box."""
    out, into = defaultdict(list), defaultdict(list)
    for chain in chains:
        out[chain[0]].append((middle[chain[1]], (chain[0], chain[-1])))
        into[chain[-1]].append((middle[chain[-2]], (chain[0], chain[-1])))

    def offsets(sides: Mapping[str, list[tuple[float, Edge]]]) -> dict[Edge, float]:
        return {
            edge: (index - (len(ends) - 1) / 2) * PORT_GAP
            for ends in sides.values()
            for index, (_, edge) in enumerate(sorted(ends))
        }

    return offsets(out), offsets(into)
