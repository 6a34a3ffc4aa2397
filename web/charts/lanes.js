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
const laneClass = { "read file": "load", stage: "load", upload: "tiny", compute: "prefill" };

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
    for (const t of x.ticks(Math.max(2, Math.floor(width / 140)))) {
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
