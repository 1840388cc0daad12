// The page: follows the server's stream of changes and hands them to the map and the panels.
import { changeable, showChain } from "./chain.js";
import { drawMap, moveTruck, onDescribe, ringTruck } from "./map.js";
import { buildGauges, buildPipeline, showAlerts, showBars, showDrivers, showGauges, showParts, showPipeline } from "./panels.js";
import { typeOf } from "./types.js";

const ALERTED_MS = 12_000; // how long a driver's row stays red

const trucks = new Map(), drivers = new Map(), statistics = new Map(), alertedUntil = new Map();
const nameOf = (id) => drivers.get(id)?.driverName ?? `driver ${id}`;

onDescribe((event) => {
  const driver = drivers.get(event.driverId);
  return [nameOf(event.driverId), ["route", event.route.replace(" to ", " → ")], ["truck", event.truckId], ["event", typeOf(event.eventType).label],
    ["speed", event.speed ? `${event.speed} mph` : "unknown"], ["paid by", driver?.wagePlan ?? ""], ["certified", driver?.certified ? "yes" : "no"],
    ["violations", statistics.get(event.driverId)?.violations ?? "not counted yet"]];
});

function show(news, fresh) {
  for (const row of news.drivers) drivers.set(row.id, { ...row, flash: row.changed && !fresh ? performance.now() + 3000 : 0 });
  for (const event of news.trucks) {
    trucks.set(event.driverId, event);
    moveTruck(event);
  }
  for (const row of news.statistics) statistics.set(row.driverId, row);
  showAlerts(news.alerts, fresh);
  if (!fresh) {
    for (const alert of news.alerts) {
      ringTruck(alert.driverId);
      alertedUntil.set(alert.driverId, performance.now() + ALERTED_MS);
    }
  }
  showParts(news.parts);
  showPipeline(news.topics, news.parts, news.behind);
  showChain(news.chain, news.topics);
  showGauges(news.samples, fresh);
  showBars(statistics, nameOf);
  const alerted = new Set([...alertedUntil].filter(([, until]) => until > performance.now()).map(([id]) => id));
  showDrivers(trucks, drivers, statistics, alerted);
  document.documentElement.dataset.live = news.parts.every((part) => part.state === "alive") ? "yes" : "no";
}

function follow() {
  const events = new EventSource("events");
  let fresh = true;
  events.onopen = () => { fresh = true; document.getElementById("offline").hidden = true; };
  events.onerror = () => { document.getElementById("offline").hidden = false; };
  events.onmessage = (message) => {
    show(JSON.parse(message.data), fresh);
    fresh = false;
  };
}

for (const button of document.querySelectorAll("[data-kill]")) {
  button.addEventListener("click", () => { button.disabled = true; fetch(`kill/${button.dataset.kill}`, { method: "POST" }); });
}
document.getElementById("change-driver").addEventListener("click", () => {
  const ids = changeable(drivers, statistics);
  if (ids.length) fetch(`drivers/${ids[Math.floor(Math.random() * ids.length)]}/change`, { method: "POST" });
});

await drawMap();
buildPipeline();
buildGauges();
follow();
