// The map: drawn once from /map.json, then trucks that glide from one reported position to the next.
import { TYPES, element, typeOf } from "./types.js";

const SCALE = 66; // units per degree of latitude
const GLIDE_MS = 1150; // a little more than the time between two reports, so that a truck never stands still
const JUMP = 90; // further than a truck drives between two reports: it took another route
const SVG = "http://www.w3.org/2000/svg";

const map = document.getElementById("map");
const popup = document.getElementById("popup");
const trucks = new Map();
let project, marks, fleet, shown = null;

function draw(parent, tag, attributes, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text) node.textContent = text;
  parent.append(node);
  return node;
}

function line(points, smooth = false) {
  const places = points.map(project);
  if (!smooth) return "M" + places.map((p) => p.map((n) => n.toFixed(1)).join(" ")).join("L");
  // A curve through the middles: rivers do not turn at corners.
  let path = `M${places[0].map((n) => n.toFixed(1)).join(" ")}`;
  for (let i = 1; i < places.length - 1; i++) {
    const [x, y] = places[i], [nx, ny] = places[i + 1];
    path += `Q${x.toFixed(1)} ${y.toFixed(1)} ${((x + nx) / 2).toFixed(1)} ${((y + ny) / 2).toFixed(1)}`;
  }
  return path + `L${places.at(-1).map((n) => n.toFixed(1)).join(" ")}`;
}

export async function drawMap() {
  const world = await (await fetch("map.json")).json();
  const [south, west, north, east] = world.bounds;
  const narrowing = Math.cos(((south + north) / 2) * Math.PI / 180);
  project = ([latitude, longitude]) => [(longitude - west) * narrowing * SCALE, (north - latitude) * SCALE];
  const [width, height] = project([south, east]);
  map.setAttribute("viewBox", `0 0 ${width.toFixed(0)} ${height.toFixed(0)}`);
  map.setAttribute("preserveAspectRatio", "xMidYMid meet");
  draw(map, "path", { class: "water", d: line(world.lake, true) + "Z" });
  for (const border of world.borders) draw(map, "path", { class: "border", d: line(border) });
  for (const river of world.rivers) draw(map, "path", { class: "river", d: line(river, true) });
  for (const [name, at] of Object.entries(world.states)) {
    const [x, y] = project(at);
    draw(map, "text", { class: "state", x, y }, name);
  }
  for (const kind of ["road-edge", "road"]) {
    for (const road of world.roads) draw(map, "path", { class: kind, d: line(road) });
  }
  marks = draw(map, "g", {});
  for (const [name, at] of Object.entries(world.cities)) {
    const [x, y] = project(at);
    const left = x > width - 60;
    const city = draw(map, "g", { class: "city" });
    draw(city, "circle", { cx: x, cy: y, r: 4 });
    draw(city, "text", { x: left ? x - 9 : x + 9, y: y - 6, "text-anchor": left ? "end" : "start" }, name.replace(/ (IL|MO)$/, ""));
  }
  fleet = draw(map, "g", {});
  document.getElementById("legend").append(
    ...TYPES.map((type) => element("li", {}, element("i", { class: "swatch", style: `--type:${type.color}` }), type.label)));
  map.addEventListener("pointerleave", hidePopup);
  requestAnimationFrame(glide);
}

function newTruck(id) {
  const node = draw(fleet, "g", { class: "truck", tabindex: "0" });
  draw(node, "circle", { class: "ring", r: 8 });
  draw(node, "circle", { class: "halo", r: 7 });
  const arrow = draw(node, "path", { d: "M9.5 0L-6 6.2L-3.2 0L-6 -6.2Z" });
  draw(node, "circle", { r: 13, fill: "transparent" }); // what a finger can hit
  const truck = { id, node, arrow, angle: 0 };
  for (const event of ["pointerenter", "focus", "click"]) node.addEventListener(event, () => { shown = id; });
  for (const event of ["pointerleave", "blur"]) node.addEventListener(event, hidePopup);
  trucks.set(id, truck);
  return truck;
}

export function moveTruck(event) {
  const [x, y] = project([event.latitude, event.longitude]);
  const known = trucks.get(event.driverId);
  const truck = known ?? newTruck(event.driverId);
  const far = !known || Math.hypot(x - truck.x, y - truck.y) > JUMP;
  if (!far && Math.hypot(x - truck.x, y - truck.y) > 0.8) truck.angle = Math.atan2(y - truck.y, x - truck.x) * 180 / Math.PI;
  Object.assign(truck, { from: far ? [x, y] : [truck.x, truck.y], to: [x, y], since: performance.now(), event });
  if (far) [truck.x, truck.y] = [x, y];
  const type = typeOf(event.eventType);
  truck.node.style.setProperty("--type", type.color);
  truck.node.classList.toggle("violating", event.eventType !== "Normal");
  if (event.eventType !== "Normal") {
    const mark = draw(marks, "circle", { class: "mark", cx: x, cy: y, r: 3, style: `--type:${type.color}` });
    mark.addEventListener("animationend", () => mark.remove());
    if (marks.childElementCount > 400) marks.firstElementChild.remove();
  }
}

export function ringTruck(id) {
  const truck = trucks.get(id);
  if (!truck) return;
  truck.node.classList.remove("alerted");
  truck.node.getBoundingClientRect(); // restarts the animation
  truck.node.classList.add("alerted");
  fleet.append(truck.node); // above the others
}

let describe = () => [];
export function onDescribe(how) { describe = how; }

function hidePopup() { shown = null; popup.hidden = true; }

function showPopup(truck) {
  const [title, ...rows] = describe(truck.event);
  const list = element("dl");
  for (const [name, value] of rows) list.append(element("dt", { text: name }), element("dd", { text: value }));
  popup.replaceChildren(element("b", { text: title }), list);
  popup.hidden = false;
  const box = map.parentElement.getBoundingClientRect();
  const at = truck.arrow.getBoundingClientRect();
  const left = at.left - box.left + 22, top = at.top - box.top - 20;
  popup.style.left = `${left + popup.offsetWidth > box.width - 8 ? left - popup.offsetWidth - 36 : left}px`;
  popup.style.top = `${Math.max(8, Math.min(top, box.height - popup.offsetHeight - 8))}px`;
}

function glide(now) {
  for (const truck of trucks.values()) {
    const part = Math.min(1, (now - truck.since) / GLIDE_MS);
    truck.x = truck.from[0] + (truck.to[0] - truck.from[0]) * part;
    truck.y = truck.from[1] + (truck.to[1] - truck.from[1]) * part;
    truck.node.setAttribute("transform", `translate(${truck.x.toFixed(2)} ${truck.y.toFixed(2)})`);
    truck.arrow.setAttribute("transform", `rotate(${truck.angle.toFixed(0)})`);
  }
  if (shown !== null) showPopup(trucks.get(shown));
  requestAnimationFrame(glide);
}
