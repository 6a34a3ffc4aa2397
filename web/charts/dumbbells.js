"use strict";
/* From one figure to another on each line: speed near the start of a context, and in a full one. */

/** @typedef {{label: string, under: string, hi: number|null, lo: number|null, title: string,
    lack?: string, dim?: boolean}} Dumbbell */

/** @param {{rows: Dumbbell[], name: string, summary: string}} of */
function dumbbells(of) {
  return chart(of.summary, (width) => {
    const narrow = width < 620;
    const left = narrow ? 8 : 210;
    const row = narrow ? 60 : 46;
    const top = 26;
    const height = top + of.rows.length * row + 30;
    const most = Math.max(1e-9, ...of.rows.map((r) => r.hi || 0));
    const x = d3.scaleLinear([0, most], [left, width - 104]).nice(4);
    /** @type {Node[]} */
    const nodes = [];
    for (const t of x.ticks(narrow ? 3 : 6)) {
      nodes.push(
        svg("line", { class: "gridline", x1: x(t), x2: x(t), y1: top - 4, y2: height - 26 }),
      );
      nodes.push(svg("text", { x: x(t), y: height - 8, "text-anchor": "middle" }, t));
    }
    nodes.push(svg("text", { class: "strong", x: left, y: 13 }, of.name));
    of.rows.forEach((r, i) => {
      const y = top + row * (i + 0.5) + (narrow ? 12 : 0);
      const name = { class: "strong", x: narrow ? left : 0, y: narrow ? y - 15 : y - 2 };
      nodes.push(svg("text", name, r.label));
      if (!narrow) nodes.push(svg("text", { class: "minor", x: 0, y: y + 15 }, r.under));
      if (r.hi === null || r.lo === null) {
        nodes.push(svg("text", { x: left + 4, y: y + 4 }, r.lack || "does not fit"));
        return;
      }
      const kind = r.dim ? "dumbbell dim" : "dumbbell";
      const line = svg("line", { class: "bell", x1: x(r.lo), x2: x(r.hi), y1: y, y2: y });
      const ends = [
        svg("circle", { class: "hollow", cx: x(r.lo), cy: y, r: 6.5 }),
        svg("circle", { class: "full", cx: x(r.hi), cy: y, r: 6.5 }),
      ];
      nodes.push(svg("g", { class: kind }, svg("title", {}, r.title), line, ...ends));
      const words = `${figure(r.hi)} → ${figure(r.lo)}`;
      nodes.push(svg("text", { class: r.dim ? "" : "strong", x: x(r.hi) + 13, y: y + 4 }, words));
    });
    return { height, nodes };
  });
}
