"use strict";
/* The curve that shows where speed falls: against the tokens in the cache, and the limit. */

/** Speed at any position: time for a token is what is straight between two.
    @param {Position[]} points @param {number} tokens */
function speedAt(points, tokens) {
  const i = points.findIndex((p) => p.tokens >= tokens);
  if (i <= 0) return i === 0 ? points[0] : points[points.length - 1];
  const a = points[i - 1];
  const b = points[i];
  const t = (tokens - a.tokens) / (b.tokens - a.tokens);
  return {
    tokens,
    tokens_per_s: 1 / ((1 - t) / a.tokens_per_s + t / b.tokens_per_s),
    bound_by: t < 0.5 ? a.bound_by : b.bound_by,
    interval: null,
    spread: null,
  };
}

/** Speed in full contexts of growing length, with both sides of each step. @param {Report} r
    @returns {Pair[]} */
function limitPoints(r) {
  /** @type {Pair[]} */
  const out = [];
  for (const c of r.by_context) if (c.last_tokens_per_s) out.push([c.context, c.last_tokens_per_s]);
  for (const c of r.cliffs)
    if (c.axis === "context")
      out.push([c.at_tokens, c.before_tokens_per_s], [c.at_tokens + 1, c.after_tokens_per_s]);
  return out.filter((p) => p[1] > 0).sort((a, b) => a[0] - b[0]);
}

/** @param {Cliff} c */
function cliffWords(c) {
  if (c.after_tokens_per_s === 0) return `beyond ${count(c.at_tokens)} tokens it does not run`;
  return `${figure(c.before_tokens_per_s)} → ${figure(c.after_tokens_per_s)} tok/s`;
}

/** @param {Report} r @param {number} context */
function tokensShown(r, context) {
  const points = r.decode.by_position;
  if (r.measured) return points[points.length - 1].tokens;
  const cliffs = r.cliffs.map((c) => (c.until_tokens || c.at_tokens) * 1.5);
  const far = Math.min(Math.max(context, ...cliffs), r.scenario.model.context || context);
  const next = r.by_context.find((c) => c.context >= far);
  return Math.max(context, next && next.context <= 2 * far ? next.context : far);
}

/** @param {Report} r @param {Position[]} points @param {number} value @returns {Cursor} */
function speedCursor(r, points, value) {
  const last = points[points.length - 1].tokens;
  const mean = r.decode.tokens_per_s || 1;
  const whole = r.interval.tokens_per_s;
  const read = (/** @type {number} */ tokens) => {
    const p = speedAt(points, tokens);
    const range = whole && span(whole, (v) => figure((v / mean) * p.tokens_per_s));
    const words = `${figure(p.tokens_per_s)} tok/s`;
    const waits = `waits for ${resource(p.bound_by)}`;
    return {
      x: p.tokens,
      y: p.tokens_per_s,
      spoken: `${count(p.tokens)} tokens: ${words}, ${waits}`,
      parts: [
        el("span", {}, el("b", {}, words), ` with ${count(p.tokens)} tokens in the cache`),
        waits,
        range && (r.measured ? `its runs: ${range}` : `80 % interval: ${range}`),
      ],
    };
  };
  const step = Math.max(1, Math.round(tokensShown(r, r.scenario.workload.context) / 128));
  return { value: Math.min(value, last), max: last, step, label: "Tokens in the cache", read };
}

/** @param {Report} r */
function speedPanel(r) {
  const points = r.decode.by_position;
  const context = r.scenario.workload.context;
  const xMax = tokensShown(r, context);
  const limits = limitPoints(r).filter((p) => p[0] <= xMax);
  /** @type {[number, number, number][]} */
  const band = points.flatMap((p) => {
    const range = p.interval || p.spread;
    return range ? [/** @type {[number, number, number]} */ ([p.tokens, range[0], range[1]])] : [];
  });
  const first = points[0];
  const last = points[points.length - 1];
  const cliffs = r.cliffs.map(
    (c) => `Cliff at ${count(c.at_tokens)} tokens, ${cliffWords(c)}: ${c.cause}.`,
  );
  const yMax = Math.max(...points.map((p) => p.tokens_per_s), ...limits.map((l) => l[1]));
  const drawing = curve({
    summary:
      `Speed falls from ${figure(first.tokens_per_s)} to ${figure(last.tokens_per_s)} tokens per ` +
      `second over ${count(last.tokens)} tokens. ${cliffs.join(" ")}`,
    xName: "tokens",
    yName: "tok/s",
    xMax,
    series: [
      { class: "limit", points: limits },
      { class: "speed", points: points.map((p) => [p.tokens, p.tokens_per_s]) },
    ],
    band,
    verticals: r.cliffs.slice(0, 2).map((c) => ({
      x: c.at_tokens,
      name: `cliff at ${count(c.at_tokens)}`,
      under: cliffWords(c),
    })),
    horizontals:
      yMax >= 9 && yMax < 120 ? [{ y: 6, name: "as fast as people read", class: "read" }] : [],
    xTicks: (width) => tokenTicks(xMax, width - 60),
    xText: (v) => (v ? short(v) : "0"),
    cursor: speedCursor(r, points, r.scenario.workload.depth + r.scenario.workload.prompt_tokens),
  });
  /** @type {[string, string][]} */
  const keys = [["speed", "as this cache fills"]];
  if (band.length) keys.push(["band", r.measured ? "range of its runs" : "80 % interval"]);
  if (limits.length > 1) keys.push(["limit", "in a full context of that length"]);
  const table = smallTable(
    "Speed by position",
    ["tokens in the cache", "#tok/s", r.measured ? "#its runs" : "#80 % interval", "waits for"],
    points.map((p) => [
      count(p.tokens),
      figure(p.tokens_per_s),
      span(p.interval || p.spread, figure) || "-",
      resource(p.bound_by),
    ]),
  );
  return card(
    r.measured ? "Speed by position" : "Where speed falls off the cliff",
    "speed against context",
    lineKeys(keys),
    drawing,
    ...cliffs.map((words) => el("p", { class: "cliffline" }, words)),
    more("As a table", table),
  );
}
