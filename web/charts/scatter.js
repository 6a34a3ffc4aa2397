"use strict";
/* Marks by two figures: forecast and measurement, quality and speed, price and speed. */

/** @typedef {{x: number, y: number, kind: number, title: string, label?: string,
    strong?: boolean}} Mark */
/** @typedef {{marks: Mark[], xName: string, yName: string, summary: string, logX?: boolean,
    logY?: boolean, same?: boolean, floor?: number, height?: number, small?: boolean,
    budget?: {x: number, name: string}}} Scatter */

/** @param {number[]} values @param {Pair} range @param {boolean} log @param {number} floor
    @returns {Scale} */
function markScale(values, range, log, floor) {
  const hi = Math.max(...values);
  if (!log) return d3.scaleLinear([0, hi * 1.08 || 1], range).nice(4);
  const lo = Math.max(Math.min(...values.filter((v) => v > 0), hi), floor);
  return d3.scaleLog([lo / 1.15, Math.max(hi, lo) * 1.15], range).clamp(true);
}

/** Where forecast equals measurement, and 25 % either way. @param {Scale} x @param {Scale} y */
function diagonal(x, y) {
  const lo = Math.max(x.domain()[0], y.domain()[0]);
  const hi = Math.min(x.domain()[1], y.domain()[1]);
  const steps = Array.from({ length: 41 }, (_, i) => lo * (hi / lo) ** (i / 40));
  const area = d3.area(
    (/** @type {any} */ v) => x(v),
    (v) => y(v / 1.25),
    (v) => y(v * 1.25),
  );
  const line = { class: "at", x1: x(lo), x2: x(hi), y1: y(lo), y2: y(hi) };
  return [svg("path", { class: "band", d: area(/** @type {any} */ (steps)) }), svg("line", line)];
}

/** Labels where nothing lies under them. */
class Labels {
  /** @param {number} width */
  constructor(width) {
    this.width = width;
    /** @type {{x: number, y: number, w: number, h: number}[]} */
    this.taken = [];
  }
  /** @param {number} x @param {number} y */
  mark(x, y) {
    this.taken.push({ x: x - 5, y: y - 5, w: 10, h: 10 });
  }
  /** @param {string} text @param {number} x @param {number} y @param {boolean} always */
  place(text, x, y, always) {
    const w = text.length * 7;
    const right = x + 12 + w < this.width - 4;
    const box = { x: right ? x + 11 : x - 11 - w, y: y - 8, w, h: 16 };
    const hits = this.taken.some(
      (t) => box.x < t.x + t.w && t.x < box.x + w && box.y < t.y + t.h && t.y < box.y + box.h,
    );
    if ((hits && !always) || box.x < 0) return null;
    this.taken.push(box);
    const at = { x: right ? x + 11 : x - 11, y: y + 4, "text-anchor": right ? "start" : "end" };
    return svg("text", { class: always && "strong", ...at }, text);
  }
}

/** @param {Scatter} of */
function scatter(of) {
  const pad = { left: 56, right: 18, top: 32, bottom: 42 };
  return chart(of.summary, (width) => {
    const height = Math.min(of.height || 360, Math.max(280, width * 0.7));
    const both = of.marks.flatMap((m) => [m.x, m.y]);
    const floor = of.floor || 1e-12;
    const xs = of.same ? both : of.marks.map((m) => m.x);
    const ys = of.same ? both : of.marks.map((m) => m.y);
    const x = markScale(xs, [pad.left, width - pad.right], !!of.logX, floor);
    const y = markScale(ys, [height - pad.bottom, pad.top], !!of.logY, floor);
    const nodes = axes({ ...of, x, y, width, height, pad });
    if (of.same) nodes.push(...diagonal(x, y));
    if (of.budget && of.budget.x <= x.domain()[1]) {
      const v = { x: of.budget.x, name: of.budget.name };
      nodes.push(...vertical(v, x(of.budget.x), width, pad.top, height - pad.bottom));
    }
    const labels = new Labels(width);
    for (const m of of.marks) labels.mark(x(m.x), y(m.y));
    const texts = [];
    const order = [...of.marks].sort((a, b) => Number(!!a.strong) - Number(!!b.strong));
    for (const m of order) {
      const shape = glyph(m.kind, x(m.x), y(m.y), m.strong ? 7 : of.small ? 3.6 : 5.5);
      if (m.strong) shape.classList.add("chosen");
      shape.append(svg("title", {}, m.title));
      nodes.push(shape);
    }
    for (const m of order.reverse())
      if (m.label) texts.push(labels.place(m.label, x(m.x), y(m.y), !!m.strong));
    for (const text of texts) if (text) nodes.push(text);
    return { height, nodes };
  });
}
