"use strict";
/* Every combination of some keys' values: one key as a line, two as a map, all as a table. */

/** @type {Record<string, {name: string, show: (v: number) => string}>} */
const sweptFigures = {
  tokens_per_s: { name: "speed, tok/s", show: figure },
  ttft_s: { name: "first token", show: seconds },
  prefill_tokens_per_s: { name: "speed of the prompt, tok/s", show: figure },
  vram_bytes: { name: "VRAM, GiB", show: gib },
  ram_bytes: { name: "RAM, GiB", show: gib },
  longest_context: { name: "longest context", show: count },
};

/** @param {Sweep} s @param {string} column */
function valuesOf(s, column) {
  const at = s.columns.indexOf(column);
  return [...new Set(s.rows.map((row) => row[at]))];
}

/** @param {Sweep} s @param {string} of the figure */
function sweepLine(s, of) {
  const [x, y] = [s.columns.indexOf(s.keys[0]), s.columns.indexOf(of)];
  /** @type {Pair[]} */
  const points = s.rows.flatMap((row) => {
    const [a, b] = [Number(row[x]), row[y]];
    return Number.isFinite(a) && typeof b === "number" ? [/** @type {Pair} */ ([a, b])] : [];
  });
  points.sort((a, b) => a[0] - b[0]);
  if (points.length < 2) return null;
  const { name, show } = sweptFigures[of];
  const best = points.reduce((a, b) => (b[1] > a[1] ? b : a));
  return curve({
    summary: `${name} against ${s.keys[0]}: at most ${show(best[1])}, at ${figure(best[0])}.`,
    xName: s.keys[0],
    yName: name,
    xMax: points[points.length - 1][0],
    yText: show === figure ? undefined : show,
    series: [{ class: "speed", points, dots: points.length <= 60 }],
  });
}

/** A table whose cells are shaded by their figure, which they also show.
    @param {Sweep} s @param {string} of */
function sweepMap(s, of) {
  const [down, along] = s.keys.map((key) => valuesOf(s, key));
  if (down.length > 60 || along.length > 40) return null;
  const [i, j, k] = [s.keys[0], s.keys[1], of].map((name) => s.columns.indexOf(name));
  /** @type {Map<string, number>} */
  const cells = new Map();
  for (const row of s.rows) {
    const value = row[k];
    if (typeof value === "number") cells.set(JSON.stringify([row[i], row[j]]), value);
  }
  const all = [...cells.values()];
  const [lo, hi] = [Math.min(...all), Math.max(...all)];
  const cell = (/** @type {Cell} */ a, /** @type {Cell} */ b) => {
    const value = cells.get(JSON.stringify([a, b]));
    if (value === undefined) return el("td", { class: "n quiet" }, "does not fit");
    const depth = hi > lo ? (value - lo) / (hi - lo) : 0;
    const strength = `${Math.round(6 + depth * 50)}%`;
    return el(
      "td",
      { class: "n heat", style: { "--heat": strength } },
      sweptFigures[of].show(value),
    );
  };
  const heads = along.map((b) => el("th", { scope: "col", class: "n" }, String(b)));
  const corner = el("th", { scope: "col" }, `${s.keys[0]} by ${s.keys[1]}`);
  const rows = down.map((a) =>
    el("tr", {}, el("th", { scope: "row" }, String(a)), ...along.map((b) => cell(a, b))),
  );
  const head = el("thead", {}, el("tr", {}, corner, ...heads));
  const label = `${sweptFigures[of].name} by ${s.keys.join(" and ")}`;
  return scrolled(label, el("table", { class: "heatmap" }, head, el("tbody", {}, ...rows)));
}

/** @param {Sweep} s */
function sweepTable(s) {
  /** @type {Column<Cell[]>[]} */
  const columns = s.columns.map((name, i) => {
    const known = sweptFigures[name];
    const numeric = s.rows.some((row) => typeof row[i] === "number");
    return {
      name: known ? known.name : name,
      numeric,
      filter: i < s.keys.length || name === "fits",
      value: (row) => row[i],
      show: (row) => {
        const v = row[i];
        if (v === null || v === "") return "-";
        if (typeof v === "number" && known) return known.show(v);
        return typeof v === "boolean" ? (v ? "yes" : "no") : String(v);
      },
    };
  });
  return dataTable({ label: "Every combination", columns, rows: s.rows });
}

/** @param {Sweep} s */
function sweepView(s) {
  const [fits, speed, ttft] = ["fits", "tokens_per_s", "ttft_s"].map((c) => s.columns.indexOf(c));
  const ran = s.rows.filter((row) => row[fits] === true);
  const best = ran.reduce(
    (a, b) => (Number(b[speed]) > Number(a[speed]) ? b : a),
    ran[0] || s.rows[0] || [],
  );
  const settings = s.keys.map((key, i) => `${key} ${best[i]}`).join(", ");
  const figures = Object.keys(sweptFigures).filter((of) => s.columns.includes(of));
  const picture = el("div");
  const draw = (/** @type {string} */ of) => {
    const made =
      s.keys.length === 1 ? sweepLine(s, of) : s.keys.length === 2 ? sweepMap(s, of) : null;
    const words = "More than two keys, or too many values, for a picture: the table filters them.";
    picture.replaceChildren(made || el("p", { class: "quiet" }, words));
  };
  draw(figures[0]);
  const options = figures.map((of) => el("option", { value: of }, sweptFigures[of].name));
  const select = el("select", {}, ...options);
  select.onchange = () => draw(select.value);
  const pick = el("label", { class: "field" }, el("span", {}, "Figure"), select);
  const top = Number(best[speed] || 0);
  const [first, unit] = time(Number(best[ttft] || 0));
  return [
    verdictCard({
      bad: !ran.length,
      mark: ran.length
        ? mark("yes", `${count(ran.length)} of ${count(s.rows.length)} combinations fit`)
        : mark("no", "no combination fits"),
      sentence: ran.length
        ? ["The fastest writes ", el("em", {}, `${figure(top)} tokens a second`), "."]
        : ["No combination fits."],
      say: settings,
      tiles: ran.length
        ? [
            tile("Speed", figure(top), "tok/s", "of the fastest"),
            tile("First token", first, unit, "of the same"),
            tile("Keys", String(s.keys.length), "", s.keys.join(", ")),
          ]
        : [],
    }),
    card("By the swept keys", s.keys.join(", "), el("div", { class: "filters" }, pick), picture),
    card("Every combination", null, sweepTable(s)),
  ];
}

views["rigcast.sweep/1"] = sweepView;
