"use strict";
/* What a load gets of its server: latencies by percentile, and what requests wait for. */

/** @param {ServingFigures} f @param {string} [title] */
function latencyPanel(f, title) {
  /** @type {[string, Percentiles][]} */
  const kinds = [
    ["TTFT", f.ttft_s],
    ["TPOT", f.tpot_s],
    ["between tokens", f.itl_s],
    ["whole request", f.e2e_s],
  ];
  const rows = kinds.map(([name, p]) => [
    name,
    ...[p.mean, p.p50, p.p90, p.p95].map(seconds),
    p.p99 === null ? "-" : seconds(p.p99),
  ]);
  const hint = `of ${count(f.requests)} requests`;
  const head = ["latency", "#mean", "#p50", "#p90", "#p95", "#p99"];
  return card(title || "Latencies", hint, smallTable("Latencies", head, rows));
}

/** @param {ServingFigures} f */
function serverPanel(f) {
  /** @type {[string, number][]} */
  const shares = [
    ["busy", f.busy],
    ["steps with prompts", f.with_prompts],
    ["somebody waits for a slot", f.sequences_full],
    ["somebody waits for KV cache", f.cache_full],
    ["somebody waits for a step", f.step_full],
    ["KV cache in use, mean", f.kv.mean],
    ["KV cache in use, peak", f.kv.peak],
    ["prompt tokens found in the cache", f.kv.hit_rate],
  ];
  const rows = shares.map(([name, share]) =>
    el(
      "div",
      {},
      el("p", { class: "row" }, el("span", {}, name), el("b", {}, percent(share))),
      el("div", { class: "meter" }, el("i", { style: { width: `${Math.min(1, share) * 100}%` } })),
    ),
  );
  return card("What the server does", "shares of the time", ...rows);
}
