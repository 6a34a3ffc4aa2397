"use strict";
/* Figures against one that grows: speed against tokens, latency against users. */

/** @typedef {{class: string, points: Pair[], dots?: boolean}} Series */
/** @typedef {{value: number, max: number, step: number, label: string,
    read: (x: number) => {x: number, y: number, spoken: string, parts: Child[]}}} Cursor */
/** @typedef {{summary: string, xName: string, yName: string, xMax: number, yMax?: number,
    log?: boolean, series: Series[], band?: [number, number, number][], verticals?: Vertical[],
    horizontals?: {y: number, name: string, class: string, left?: boolean}[],
    xTicks?: (width: number) => number[], xText?: (v: number) => string,
    yText?: (v: number) => string, height?: number, cursor?: Cursor}} Curve */

/** The scale of figures: from 0, or of a log scale from a bit below the least. @param {Curve} of
    @param {number} bottom @param {number} top */
function valueScale(of, bottom, top) {
  const values = of.series.flatMap((s) => s.points.map((p) => p[1]));
  for (const b of of.band || []) values.push(b[2]);
  for (const h of of.horizontals || []) values.push(h.y);
  const most = of.yMax || Math.max(...values, 1e-9) * 1.06;
  if (!of.log) return d3.scaleLinear([0, most], [bottom, top]).nice(4);
  const least = Math.min(...values.filter((v) => v > 0), most);
  return d3.scaleLog([least / 1.4, most * 1.3], [bottom, top]).clamp(true);
}

/** A curve, and under it a native slider that reads it out. @param {Curve} of */
function curve(of) {
  const pad = { left: 50, right: 16, top: 32, bottom: 42 };
  /** @type {SVGGElement|null} */
  let at = null;
  /** @type {Scale} */
  let x;
  /** @type {Scale} */
  let y;
  const host = chart(of.summary, (width) => {
    const height = of.height || (width < 560 ? 268 : 330);
    const bottom = height - pad.bottom;
    x = d3.scaleLinear([0, of.xMax], [pad.left, width - pad.right]);
    y = valueScale(of, bottom, pad.top);
    const nodes = axes({ ...of, x, y, width, height, pad, xTicks: of.xTicks?.(width) });
    if (of.band) {
      const area = d3.area(
        (/** @type {any} */ p) => x(p[0]),
        (p) => y(p[1]),
        (p) => y(p[2]),
      );
      nodes.push(svg("path", { class: "band", d: area(of.band) }));
    }
    for (const h of of.horizontals || []) {
      const line = { x1: pad.left, x2: width - pad.right, y1: y(h.y), y2: y(h.y) };
      const side = h.left
        ? { x: pad.left + 6, "text-anchor": "start" }
        : { x: width - pad.right, "text-anchor": "end" };
      nodes.push(svg("line", { class: h.class, ...line }));
      // Names of verticals stand at the top.
      const under = y(h.y) < pad.top + 24 ? 16 : -6;
      nodes.push(svg("text", { class: `${h.class}name`, y: y(h.y) + under, ...side }, h.name));
    }
    const path = d3.line(
      (/** @type {any} */ p) => x(p[0]),
      (p) => y(p[1]),
    );
    for (const s of of.series) {
      nodes.push(svg("path", { class: s.class, d: path(s.points) }));
      if (s.dots)
        for (const p of s.points)
          nodes.push(svg("circle", { class: "point", cx: x(p[0]), cy: y(p[1]), r: 3.5 }));
    }
    for (const v of of.verticals || [])
      if (v.x <= of.xMax) nodes.push(...vertical(v, x(v.x), width, pad.top, bottom));
    if (of.cursor) {
      const line = svg("line", { class: "at", y1: pad.top, y2: bottom });
      at = svg("g", {}, line, svg("circle", { class: "dot", r: 6 }));
      nodes.push(at);
      queueMicrotask(place);
    }
    return { height, nodes };
  });
  if (!of.cursor) return host;

  const cursor = of.cursor;
  const readout = el("p", { class: "readout" });
  const slider = el("input", {
    type: "range",
    min: 0,
    max: of.xMax,
    step: cursor.step,
    value: cursor.value,
    "aria-label": cursor.label,
  });
  const place = () => {
    const here = cursor.read(Math.min(+slider.value, cursor.max));
    readout.replaceChildren(...here.parts.map((p) => el("span", {}, p)));
    slider.setAttribute("aria-valuetext", here.spoken);
    slider.style.setProperty("--fill", `${(+slider.value / of.xMax) * 100}%`);
    at?.setAttribute("transform", `translate(${x(here.x)},0)`);
    at?.lastElementChild?.setAttribute("cy", String(y(here.y)));
  };
  slider.oninput = () => {
    if (+slider.value > cursor.max) slider.value = String(cursor.max);
    place();
  };
  host.onpointermove = (e) => {
    if (e.pointerType !== "mouse" && !e.buttons) return;
    const tokens = x.invert(e.clientX - host.getBoundingClientRect().left);
    slider.value = String(Math.max(0, Math.min(cursor.max, tokens)));
    place();
  };
  const scrub = el("div", { class: "scrub" }, slider);
  return el("div", {}, host, scrub, readout);
}
