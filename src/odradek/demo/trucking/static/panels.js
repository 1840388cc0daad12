// Everything beside the map: parts, pipeline, gauges, alerts, bars, drivers.
import { VIOLATIONS, element, typeOf } from "./types.js";

const byId = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en");
const SHOWN_ALERTS = 30;

const INPUTS = ["truck_events", "truck_speed_events", "trucking.public.driver"];
const OUTPUTS = ["dangerous_driving", "dangerous_driving_and_driver", "driver_stats", "driver_alerts", "trucking.dlq"];

export function showParts(parts) {
  byId("parts").replaceChildren(...parts.map((part) => {
    const item = element("li", { class: part.state, title: part.detail });
    if (part.state.endsWith("starting")) item.append(element("i", { class: "bar", style: `width:${part.progress * 100}%` }));
    const again = part.restarts ? ` · ${part.restarts}×` : "";
    const said = part.state === "alive" ? part.detail : `${part.state}${part.detail ? ": " + part.detail : ""}`;
    item.append(element("i", { class: "dot" }), element("b", { text: part.name }), element("span", { text: said + again }));
    return item;
  }));
  for (const button of document.querySelectorAll("[data-kill]")) {
    button.disabled = !parts.some((part) => part.name === button.dataset.kill && part.state === "alive");
  }
}

const boxes = new Map();

// A long name may go on in the next line, after a dot or an underscore.
function breakable(name) {
  const node = element("b");
  for (const piece of name.split(/(?<=[._])/)) node.append(piece, element("wbr"));
  return node;
}

export function buildPipeline() {
  const topic = (name) => {
    const rate = element("em", { text: "0" }), below = element("span", { text: "" });
    const box = element("div", { class: "topic", title: name, style: name.length > 24 ? "flex-grow:1.3" : "" }, breakable(name), element("span", {}, rate, "/s"), below);
    boxes.set(name, { rate, below });
    return box;
  };
  const flow = (id) => element("div", { class: "flow still", id }, element("i"), element("i"), element("i"));
  const app = element("div", { class: "app", id: "app" }, element("b", { text: "trucking" }), element("span", { id: "app-said" }), element("span", { id: "app-behind" }));
  byId("pipeline").append(
    element("div", { class: "group in" }, ...INPUTS.map(topic)), flow("flow-in"), app, flow("flow-out"),
    element("div", { class: "group out" }, ...OUTPUTS.map(topic)));
}

// Micro-batches come once a second: less than three seconds behind is as good as it gets.
const levelOf = (seconds) => seconds === null ? "" : seconds < 3 ? "fine" : seconds < 10 ? "slow" : "behind";
const seconds = (value) => value === null ? "-" : value < 100 ? value.toFixed(1) : number.format(Math.round(value));
const behindBy = (value) => value === null ? "nothing processed yet" : `${seconds(value)} s behind`;

export function showPipeline(topics, parts, behind) {
  for (const [name, { rate, below }] of boxes) {
    const told = topics[name];
    rate.textContent = told.rate >= 10 ? told.rate.toFixed(0) : told.rate.toFixed(1);
    const isRead = INPUTS.includes(name) && told.behind !== null;
    below.textContent = isRead ? behindBy(told.behind) : `${number.format(told.total)} in all`;
    below.className = isRead ? levelOf(told.behind) : "";
  }
  const busy = (names) => names.some((name) => topics[name].rate > 0);
  byId("flow-in").classList.toggle("still", !busy(INPUTS));
  byId("flow-out").classList.toggle("still", !busy(OUTPUTS));
  const spark = parts.find((part) => part.name === "spark");
  byId("app").className = `app ${spark?.state ?? ""}`;
  byId("app-said").textContent = spark?.state === "alive" ? "running on Spark" : `Spark: ${spark?.state ?? "waiting"}`;
  byId("app-behind").textContent = behindBy(behind);
  byId("app-behind").className = levelOf(behind);
}

const GAUGES = [
  { key: "events", label: "events per second", color: "var(--accent)" },
  { key: "violations", label: "violations per minute", color: "var(--wait)" },
  { key: "alerts", label: "alerts", color: "var(--bad)" },
  { key: "behind", label: "seconds behind", color: "", text: seconds, level: levelOf },
];
let samples = [];

export function buildGauges() {
  byId("gauges").append(...GAUGES.map((gauge) => {
    const box = element("div", { class: "panel gauge", id: `gauge-${gauge.key}`, style: gauge.color ? `--c:${gauge.color}` : "" });
    box.innerHTML = `<span>${gauge.label}</span><b>0</b><svg viewBox="0 0 120 30" preserveAspectRatio="none" aria-hidden="true"><path class="area"/><path class="line"/></svg>`;
    gauge.box = box;
    return box;
  }));
}

export function showGauges(news, fresh) {
  samples = (fresh ? [] : samples).concat(news).slice(-120);
  if (!samples.length) return;
  for (const { key, box, text, level } of GAUGES) {
    const values = samples.map((sample) => sample[key] ?? 0), last = samples.at(-1)[key];
    const top = Math.max(1, ...values) * 1.1;
    const points = values.map((value, i) => `${(120 - (values.length - 1 - i)).toFixed(0)} ${(29 - (value / top) * 26).toFixed(1)}`);
    box.querySelector("b").textContent = text ? text(last) : number.format(Math.round(last));
    if (level) box.className = `panel gauge ${level(last)}`;
    box.querySelector(".line").setAttribute("d", "M" + points.join("L"));
    box.querySelector(".area").setAttribute("d", `M${120 - (values.length - 1)} 30L${points.join("L")}L120 30Z`);
  }
}

const seenAlerts = new Set();

export function showAlerts(alerts, fresh) {
  const list = byId("alerts");
  let added = 0;
  for (const alert of alerts) {
    const id = `${alert.driverId} ${alert.window_start}`;
    if (seenAlerts.has(id)) continue;
    seenAlerts.add(id);
    const kinds = alert.kinds.map((kind) => element("i", { class: "swatch", style: `--type:${typeOf(kind).color}`, title: typeOf(kind).label }));
    list.querySelector(".empty")?.remove();
    list.prepend(element("li", { class: fresh ? "" : "new" },
      element("time", { text: new Date(alert.window_end).toLocaleTimeString() }),
      element("b", { text: alert.driverName ?? `driver ${alert.driverId}` }),
      element("p", {}, `${alert.alert}, ${alert.violations} violations`, element("span", { class: "kinds" }, ...kinds))));
    added++;
  }
  while (list.childElementCount > SHOWN_ALERTS) list.lastElementChild.remove();
  if (!list.childElementCount) list.append(element("li", { class: "empty", text: "none yet" }));
  if (added && !fresh) {
    const panel = byId("alerts-panel");
    panel.classList.remove("flash");
    panel.getBoundingClientRect();
    panel.classList.add("flash");
  }
  return added;
}

export function showBars(statistics, nameOf) {
  const worst = [...statistics.values()].filter((row) => row.violations).sort((a, b) => b.violations - a.violations || a.driverId - b.driverId).slice(0, 10);
  if (!worst.length) {
    byId("bars").replaceChildren(element("div", { class: "empty", text: "waiting for the first results" }));
    return;
  }
  const top = worst[0].violations;
  byId("bars").replaceChildren(...worst.map((row) => {
    const stack = element("div", { class: "stack" }, ...VIOLATIONS.filter((type) => row[type.count]).map((type) =>
      element("i", { style: `--type:${type.color};width:${row[type.count] / top * 100}%`, title: `${row[type.count]} ${type.label}` })));
    return element("div", { class: "bar-row" }, element("span", { text: nameOf(row.driverId) }), stack, element("span", { class: "n", text: row.violations }));
  }));
}

export function showDrivers(trucks, drivers, statistics, alerted) {
  const rows = [...trucks.values()].sort((a, b) =>
    (statistics.get(b.driverId)?.violations ?? 0) - (statistics.get(a.driverId)?.violations ?? 0) || a.driverId - b.driverId);
  const table = byId("drivers");
  table.replaceChildren(...rows.map((truck) => {
    const driver = drivers.get(truck.driverId), counted = statistics.get(truck.driverId);
    const row = element("tr", { class: alerted.has(truck.driverId) ? "red" : truck.eventType !== "Normal" ? "amber" : "" });
    if (driver?.flash > performance.now()) row.classList.add("changed");
    row.append(
      element("td", {}, element("i", { class: "swatch", style: `--type:${typeOf(truck.eventType).color}` }), driver?.driverName ?? truck.driverId),
      element("td", { class: "route", text: truck.route.replace(" to ", " → ") }), element("td", { class: "n", text: truck.speed ?? "" }),
      element("td", { text: truck.last ? typeOf(truck.last).label : "" }), element("td", { text: driver?.wagePlan ?? "" }),
      element("td", { class: "n", text: counted ? number.format(counted.events) : "" }), element("td", { class: "n", text: counted ? number.format(counted.violations) : "" }));
    return row;
  }));
}
