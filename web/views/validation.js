"use strict";
/* What was forecast beside what was measured. */

/** @type {Record<string, string>} */
const metricNames = {
  tg_tps: "speed of the answer, tok/s",
  pp_tps: "speed of the prompt, tok/s",
  ttft_s: "first token, s",
  load_s: "load, s",
  vram_gb: "VRAM, GB",
  "decode.tokens_per_s": "speed of the answer, tok/s",
  prefill_tokens_per_s: "speed of the prompt, tok/s",
  "decode.by_position.tokens_per_s": "speed by position, tok/s",
};

/** @param {string} metric */
function metricName(metric) {
  return metricNames[metric] || metric;
}

/** @param {ValidationRow[]} rows @param {string[]} regimes @param {string} metric */
function forecastScatter(rows, regimes, metric) {
  const shown = rows.filter((r) => r.predicted > 0 && r.measured > 0);
  if (!shown.length) return el("p", { class: "quiet" }, "No row of this choice has both figures.");
  const marks = shown.map((r) => ({
    x: r.measured,
    y: r.predicted,
    kind: regimes.indexOf(r.regime),
    title:
      `${r.id}, ${r.rig}, ${r.regime}: forecast ${figure(r.predicted)}, ` +
      `measured ${figure(r.measured)}, ${signed(r.error)}`,
  }));
  const within = shown.filter((r) => Math.abs(r.error) <= 0.25).length;
  return scatter({
    marks,
    same: true,
    logX: true,
    logY: true,
    small: true,
    height: 560,
    xName: "measured",
    yName: "forecast",
    summary:
      `${metricName(metric)}: ${shown.length} runs, forecast against measured; ` +
      `${percent(within / shown.length)} of them are within 25 %. The table has the figures.`,
  });
}

/** @param {Validation} v @param {string} metric */
function summaryTable(v, metric) {
  const rows = v.summary
    .filter((s) => s.metric === metric)
    .map((s) => [
      s.regime,
      count(s.n),
      count(s.chips),
      percent1(s.median_abs_error),
      percent1(s.p90_abs_error),
      signed(s.bias),
      s.coverage === null ? "-" : percent(s.coverage),
    ]);
  const head = ["regime", "#runs", "#chips", "#median error", "#90th", "#bias", "#inside 80 %"];
  return smallTable("Errors by regime", head, rows);
}

/** @param {number} v */
function percent1(v) {
  return `${(v * 100).toFixed(1)}\u00a0%`;
}

/** @param {ValidationRow[]} rows @param {(rows: ValidationRow[]) => void} onfilter */
function rowsTable(rows, onfilter) {
  const signs = (/** @type {ValidationRow} */ r) => {
    const far = Math.abs(r.error) > 0.25;
    return far ? el("b", {}, signed(r.error)) : signed(r.error);
  };
  return dataTable({
    label: "Every run",
    rows,
    sort: { column: 5, down: true },
    onfilter,
    dim: (r) => !r.counted,
    columns: [
      { name: "run", value: (r) => r.id },
      { name: "rig", value: (r) => r.rig },
      { name: "regime", value: (r) => r.regime, filter: true },
      {
        name: "forecast",
        numeric: true,
        value: (r) => r.predicted,
        show: (r) => figure(r.predicted),
      },
      {
        name: "measured",
        numeric: true,
        value: (r) => r.measured,
        show: (r) => figure(r.measured),
      },
      { name: "error", numeric: true, value: (r) => Math.abs(r.error), show: signs },
      {
        name: "80 % interval",
        numeric: true,
        value: (r) => r.interval?.[0] ?? null,
        show: (r) => span(r.interval, figure) || "-",
      },
      {
        name: "inside",
        filter: true,
        value: (r) => (r.inside === null ? "-" : r.inside ? "yes" : "no"),
      },
    ],
  });
}

/** Scatter, errors and rows of one metric. @param {Validation} v @param {string} metric */
function metricCards(v, metric) {
  const rows = v.rows.filter((r) => r.metric === metric);
  const regimes = [...new Set(v.rows.map((r) => r.regime))];
  const picture = el("div", {}, forecastScatter(rows, regimes, metric));
  const hint = `${metricName(metric)}; on the line is right, the band is 25 % either way`;
  const draw = (/** @type {ValidationRow[]} */ some) =>
    picture.replaceChildren(forecastScatter(some, regimes, metric));
  const uncounted = rows.some((r) => !r.counted)
    ? "in grey: figures were fitted on this configuration, it is in no summary"
    : "the farthest off first; filters also change the picture above";
  return [
    card("Forecast against measurement", hint, glyphKeys(regimes), picture),
    card("Errors by regime", "chips weigh alike", summaryTable(v, metric)),
    card("Every run", uncounted, rowsTable(rows, draw)),
  ];
}

/** @param {Validation} v */
function barsPanel(v) {
  if (!v.bars?.length) return null;
  const rows = v.bars.map((b) => [
    b.label,
    b.metric,
    count(b.runs),
    percent1(b.median_abs_error),
    b.allowed_inside === null
      ? percent1(b.allowed_median ?? 0)
      : `${percent1(b.allowed_inside)} inside`,
    `${signed(b.worst.error)} (${b.worst.id})`,
    b.allowed_worst === null ? "any" : percent1(b.allowed_worst),
    b.median_holds && b.worst_holds && b.inside_holds ? "holds" : "missed",
  ]);
  const head = ["bar", "metric", "#runs", "#median", "#allowed", "#worst", "#allowed", ""];
  head[7] = "verdict";
  return card("Bars", "what the errors may be at most", smallTable("Bars", head, rows));
}

/** @param {Validation} v */
function activitiesPanel(v) {
  if (!v.activities.length) return null;
  const rows = v.activities.map((a) => [
    a.phase,
    a.kind,
    seconds(a.predicted_s),
    seconds(a.measured_s),
    signed(a.error),
  ]);
  const head = ["phase", "activity", "#forecast", "#measured", "#error"];
  return card("Activity by activity", "of a traced run", smallTable("Activities", head, rows));
}

/** @param {string} title @param {Remark[]} remarks */
function remarksPanel(title, remarks) {
  if (!remarks.length) return null;
  const table = dataTable({
    label: title,
    rows: remarks,
    first: 30,
    columns: [
      { name: "run", value: (r) => r.id },
      { name: "reason", value: (r) => r.reason, filter: true },
    ],
  });
  return card(title, `${count(remarks.length)} runs`, more("Show them", table));
}

const seenNote =
  "A fit may have seen runs of the same chips: rigcast validate --left-out shows the errors on " +
  "chips that it had not seen.";

/** Of runs of others, on which runtime profiles are fitted. @param {string} metric */
function isPublished(metric) {
  return metric === "tg_tps" || metric === "pp_tps";
}

/** @param {Validation} v @param {string} metric */
function validationVerdict(v, metric) {
  const all = v.summary.find((s) => s.metric === metric && s.regime === "all");
  if (!all)
    return verdictCard({
      bad: true,
      mark: mark("no", "nothing to compare"),
      sentence: ["No run has a forecast."],
      say: "",
      tiles: [],
    });
  const coverage = all.coverage;
  return verdictCard({
    mark: mark("yes", `${count(all.n)} runs of ${count(all.chips)} chips`),
    sentence: [
      "Half of the forecasts are within ",
      el("em", {}, percent1(all.median_abs_error)),
      " of what was measured.",
    ],
    say: metricName(metric) + (isPublished(metric) ? `. ${seenNote}` : ""),
    tiles: [
      tile("Median error", (all.median_abs_error * 100).toFixed(1), "%", "chips weigh alike"),
      tile("90th percentile", (all.p90_abs_error * 100).toFixed(1), "%", "one in ten is worse"),
      tile("Bias", signed(all.bias).replace(/\u00a0%$/, ""), "%", "mean error"),
      tile(
        "Inside",
        coverage === null ? "-" : String(Math.round(coverage * 100)),
        coverage === null ? "" : "%",
        "of the 80 % intervals hold the measurement",
      ),
    ],
  });
}

/** @param {Validation} v */
function validationView(v) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const r of v.rows) counts.set(r.metric, (counts.get(r.metric) || 0) + 1);
  // What people ask for first, then what there is most of.
  const leads = (/** @type {string} */ m) => /^(decode\.tokens_per_s|tg_tps)$/.test(m);
  const order = (/** @type {string} */ m) => (leads(m) ? Infinity : counts.get(m) || 0);
  const metrics = [...counts.keys()].sort((a, b) => (order(a) < order(b) ? 1 : -1));
  const first = metrics[0] || "";
  const figures = el("div", { class: "stack" });
  const draw = (/** @type {string} */ metric) =>
    figures.replaceChildren(validationVerdict(v, metric), ...metricCards(v, metric));
  if (first) draw(first);
  else figures.append(validationVerdict(v, ""));
  const options = metrics.map((m) =>
    el("option", { value: m }, `${metricName(m)} (${counts.get(m)})`),
  );
  const select = el("select", {}, ...options);
  select.onchange = () => draw(select.value);
  return [
    metrics.length > 1 &&
      el(
        "div",
        { class: "filters alone" },
        el("label", { class: "field" }, el("span", {}, "Figure"), select),
      ),
    figures,
    barsPanel(v),
    activitiesPanel(v),
    remarksPanel("Skipped", v.skipped),
    remarksPanel("Remarks", v.notes),
  ].filter((node) => node instanceof HTMLElement);
}

views["rigcast.validation/1"] = validationView;
