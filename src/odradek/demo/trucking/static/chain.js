// The database, the connectors, where alerts land, and the way of the last change through all of them.
import { element } from "./types.js";

const byId = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en");
const OFTEN = 3; // drivers who have the most violations, and so the next alerts

const STEPS = [
  { station: "committed", label: "committed" },
  { station: "trucking.public.driver", label: "captured" },
  { station: "dangerous_driving_and_driver", label: "joined" },
  { station: "driver_alerts", label: "in an alert" },
];
const CONNECTORS = { capture: "drivers-capture", table: "alerts-table", lake: "alerts-lake" };
const STATES = { RUNNING: "alive", FAILED: "stopped" };

// Drivers whose next alert comes soon, so that a visitor sees the change arrive.
export function changeable(drivers, statistics) {
  const often = [...statistics.values()].sort((a, b) => b.violations - a.violations).map((row) => row.driverId);
  return often.filter((id) => drivers.has(id)).slice(0, OFTEN);
}

function showPlace(id, kind, name, figure, unit, connector, states) {
  const state = states[connector];
  byId(id).replaceChildren(
    element("b", {}, element("small", { text: kind }), ` ${name}`),
    element("span", {}, element("em", { text: number.format(figure) }), ` ${unit}`),
    element("span", { class: `connector ${STATES[state] ?? "starting"}`, title: `the connector ${connector}: ${state ?? "unknown"}` },
      element("i", { class: "dot" }), connector));
}

const said = (row) => `${row.driverName} is now paid by ${row.wagePlan}, ${row.certified ? "certified" : "not certified"}`;

function showTrail(trail) {
  byId("trail-said").textContent = trail ? said(trail.row) : "A row changes in the database; its way to the next alert is timed here.";
  const next = trail ? STEPS.find(({ station }) => trail.reached[station] === null) : undefined;
  byId("trail-steps").replaceChildren(...STEPS.map((step) => {
    const seconds = trail?.reached[step.station] ?? null;
    const state = seconds !== null ? "reached" : step === next ? "next" : "";
    return element("li", { class: state, title: step.station },
      element("i", { class: "dot" }), element("span", { text: step.label }), element("em", { text: seconds === null ? "" : `${seconds.toFixed(seconds < 1 ? 2 : 1)} s` }));
  }));
}

export function showChain(chain, topics) {
  if (!chain) return;
  const changes = chain.changes === 1 ? "1 change" : `${number.format(chain.changes)} changes`;
  showPlace("place-drivers", chain.database, "driver", chain.drivers, `rows, ${changes}`, CONNECTORS.capture, chain.connectors);
  showPlace("place-table", chain.database, "driver_alerts", chain.table_rows, "rows", CONNECTORS.table, chain.connectors);
  const files = chain.lake_files === 1 ? "1 file" : `${number.format(chain.lake_files)} files`;
  showPlace("place-lake", "Parquet", "driver_alerts", chain.lake_rows, `rows, ${files}`, CONNECTORS.lake, chain.connectors);
  byId("flow-capture").classList.toggle("still", topics["trucking.public.driver"].rate === 0);
  byId("flow-land").classList.toggle("still", topics.driver_alerts.rate === 0);
  byId("change-driver").disabled = !(topics.driver_stats.total && chain.drivers);
  showTrail(chain.trail);
}
