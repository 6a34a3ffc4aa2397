"use strict";
/* What charts share: drawing at the width that there is, axes, marks. Scales and paths are d3's. */

/** @typedef {{left: number, right: number, top: number, bottom: number}} Padding */
/** @typedef {((v: number) => number) & {ticks: (n?: number) => number[], domain: () => number[],
    invert: (v: number) => number, base?: Function}} Scale */

/** @typedef {{x: number, name: string, under?: string, quiet?: boolean}} Vertical */

/** An image with its summary in words, drawn again when its width changes.
    @param {string} summary
    @param {(width: number) => {height: number, nodes: Node[]}} draw */
function chart(summary, draw) {
  const host = el("div", { class: "chart" });
  let width = 0;
  const again = () => {
    const now = Math.round(host.clientWidth);
    if (now < 40 || now === width) return;
    width = now;
    const { height, nodes } = draw(width);
    const box = { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": summary };
    host.replaceChildren(svg("svg", box, ...nodes));
  };
  new ResizeObserver(again).observe(host);
  host.redraw = () => {
    width = 0;
    again();
  };
  return host;
}

/** Of a log scale powers of ten, with halves where they are too few.
    @param {Scale} scale @param {number} n */
function ticksOf(scale, n) {
  const all = scale.ticks(n);
  if (!scale.base) return all;
  const tens = all.filter((v) => /^1/.test(v.toExponential()));
  if (tens.length > 2) return tens;
  const few = all.filter((v) => /^[125]/.test(v.toExponential()));
  return few.length > 1 ? few : all;
}

/** Token counts that people know, for an axis up to `max`.
    @param {number} max @param {number} width */
function tokenTicks(max, width) {
  const most = Math.max(3, Math.floor(width / 76));
  let step = 16;
  while (max / step > most) step *= 2;
  return Array.from({ length: Math.floor(max / step) + 1 }, (_, i) => i * step);
}

/** @param {{x: Scale, y: Scale, width: number, height: number, pad: Padding, xName: string,
    yName: string, xTicks?: number[], xText?: (v: number) => string,
    yText?: (v: number) => string}} of */
function axes(of) {
  const { x, y, width, height, pad } = of;
  const right = width - pad.right;
  const bottom = height - pad.bottom;
  const words = (/** @type {number} */ v) =>
    v.toLocaleString("en-US", { maximumFractionDigits: 6 });
  /** @type {Node[]} */
  const out = [];
  for (const t of ticksOf(y, 4)) {
    const at = { x1: pad.left, x2: right, y1: y(t), y2: y(t) };
    const label = { x: pad.left - 9, y: y(t) + 4, "text-anchor": "end" };
    out.push(svg("line", { class: "gridline", ...at }));
    out.push(svg("text", label, (of.yText || words)(t)));
  }
  for (const t of of.xTicks || ticksOf(x, Math.floor(width / 110))) {
    const at = { x1: x(t), x2: x(t), y1: bottom, y2: bottom + 5 };
    const anchor = x(t) > right - 14 ? "end" : "middle";
    out.push(svg("line", { class: "axis", ...at }));
    out.push(
      svg("text", { x: x(t), y: bottom + 19, "text-anchor": anchor }, (of.xText || words)(t)),
    );
  }
  out.push(svg("line", { class: "axis", x1: pad.left, x2: right, y1: bottom, y2: bottom }));
  out.push(svg("text", { class: "strong", x: 0, y: 13 }, of.yName));
  const end = { class: "strong", x: right, y: height - 3, "text-anchor": "end" };
  out.push(svg("text", end, of.xName));
  return out;
}

/** A line up the chart with its name, on the side that has room. @param {Vertical} v
    @param {number} x @param {number} width @param {number} top @param {number} bottom */
function vertical(v, x, width, top, bottom) {
  const left = x > width * 0.62;
  const at = { x: x + (left ? -9 : 9), "text-anchor": left ? "end" : "start" };
  const kind = v.quiet ? "quietly" : "cliff";
  return [
    svg("line", { class: kind, x1: x, x2: x, y1: top - 6, y2: bottom }),
    v.quiet ? null : svg("path", { class: "cliffmark", d: `M${x - 6},${bottom}h12l-6,-9z` }),
    svg("text", { class: `${kind}name`, y: top + 6, ...at }, v.name),
    v.under && width > 560 ? svg("text", { y: top + 23, ...at }, v.under) : null,
  ].filter((node) => node !== null);
}

const glyphs = ["●", "▲", "■", "◆", "▼", "✚", "▬"];

/** A mark whose shape says its kind. @param {number} kind @param {number} x @param {number} y
    @param {number} r */
function glyph(kind, x, y, r) {
  const arm = r - 0.5;
  const paths = [
    `M${x - r},${y}a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0Z`,
    `M${x},${y - r - 1}L${x + r + 1},${y + r}H${x - r - 1}Z`,
    `M${x - r},${y - r}h${2 * r}v${2 * r}h${-2 * r}Z`,
    `M${x},${y - r - 1}L${x + r + 1},${y}L${x},${y + r + 1}L${x - r - 1},${y}Z`,
    `M${x},${y + r + 1}L${x + r + 1},${y - r}H${x - r - 1}Z`,
    `M${x - 1.5},${y - r - 1}h3v${arm}h${arm}v3h${-arm}v${arm}h-3v${-arm}h${-arm}v-3h${arm}Z`,
    `M${x - r - 2},${y - r / 2}h${2 * r + 4}v${r}h${-2 * r - 4}Z`,
  ];
  return svg("path", { d: paths[kind % 7], class: `glyph c${kind % 7}` });
}

/** What the kinds of marks stand for. @param {string[]} names */
function glyphKeys(names) {
  const keys = names.map((name, i) =>
    el(
      "li",
      {},
      el("span", { class: `key c${i % 7}`, "aria-hidden": "true" }, glyphs[i % 7]),
      name,
    ),
  );
  return el("ul", { class: "keys chart-keys" }, ...keys);
}

/** What lines and areas stand for. @param {[string, string][]} of class of the line, and words */
function lineKeys(of) {
  const keys = of.map(([kind, words]) => {
    const area = kind === "band";
    const sample = area
      ? svg("rect", { class: kind, width: 24, height: 12, rx: 3 })
      : svg("line", { class: kind, x1: 1, x2: 23, y1: 6, y2: 6 });
    const box = { viewBox: "0 0 24 12", width: 24, height: 12, "aria-hidden": "true" };
    return el("li", {}, svg("svg", box, sample), words);
  });
  return el("ul", { class: "keys chart-keys" }, ...keys);
}
