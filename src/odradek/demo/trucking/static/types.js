// The kinds of events, in the order of the legend and the bars. `count` is the field of driver_stats.
export const TYPES = [
  { name: "Normal", label: "normal", color: "var(--normal)" },
  { name: "Overspeed", label: "overspeed", color: "var(--overspeed)", count: "overspeed" },
  { name: "Lane Departure", label: "lane departure", color: "var(--lane)", count: "laneDeparture" },
  { name: "Unsafe following distance", label: "following distance", color: "var(--following)", count: "followingDistance" },
  { name: "Unsafe tail distance", label: "tail distance", color: "var(--tail)", count: "tailDistance" },
];
export const VIOLATIONS = TYPES.slice(1);
const BY_NAME = new Map(TYPES.map((type) => [type.name, type]));
export const typeOf = (name) => BY_NAME.get(name) ?? TYPES[0];

export function element(tag, { text, ...attributes } = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  node.append(...children);
  return node;
}
