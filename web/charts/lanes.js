"use strict";
/* What each resource of a machine does, and when. */

/** Names of activities as a verb that follows the lane's name; others stay as they are.
    @type {Record<string, string>} */
const doings = {
  "read file": "reads the file",
  stage: "copies to pinned memory",
  upload: "weights go up",
  compute: "computes",
};
/** @type {Record<string, string>} */
const laneClass = {
  "read file": "load",
  stage: "load",
  upload: "tiny",
  "fetch weights": "tiny",
  "fetch kv": "moves",
  "store kv": "moves",
  compute: "prefill",
};

/** Steps that a clock has, where d3's would be 200 s. @param {Scale} x @param {number} n */
function clockTicks(x, n) {
  const end = x.domain()[1];
  if (end < 120) return x.ticks(n);
  const steps = [30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400];
  const step = steps.find((s) => end / s <= n) || end;
  return Array.from({ length: Math.floor(end / step) + 1 }, (_, i) => i * step);
}

/** @param {Timeline} of @param {string} summary */
function lanes(of, summary) {
  const rows = of.lanes.filter((lane) => lane.spans.length > 0);
  return chart(summary, (width) => {
    const left = width < 560 ? 92 : 150;
    const row = 36;
    const height = rows.length * row + 28;
    const x = d3.scaleLinear([0, of.end_s], [left, width - 24]);
    /** @type {Node[]} */
    const nodes = [];
    for (const t of clockTicks(x, Math.max(2, Math.floor(width / 140)))) {
      nodes.push(svg("line", { class: "gridline", x1: x(t), x2: x(t), y1: 0, y2: height - 24 }));
      const words = t ? seconds(t).replace(/\.0+(?=\D)/, "") : "0";
      nodes.push(svg("text", { x: x(t), y: height - 8, "text-anchor": "middle" }, words));
    }
    rows.forEach((lane, i) => {
      nodes.push(svg("text", { class: "strong", x: 0, y: i * row + 21 }, lane.name));
      for (const [from, to, what] of lane.spans) {
        const w = Math.max(2, x(to) - x(from));
        const title = `${lane.name}, ${doings[what] || what}: ${seconds(from)} to ${seconds(to)}`;
        const kind = `span ${laneClass[what] || "other"}`;
        const at = { x: x(from), y: i * row + 4, width: w, height: 25, rx: Math.min(4, w / 2) };
        nodes.push(svg("rect", { class: kind, ...at }, svg("title", {}, title)));
        const words = doings[what] || what;
        if (w > words.length * 7.2 + 16)
          nodes.push(svg("text", { class: "onspan", x: x(from) + 9, y: i * row + 21 }, words));
      }
    });
    return { height, nodes };
  });
}
