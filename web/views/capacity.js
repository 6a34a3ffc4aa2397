"use strict";
/* How many users a machine serves: latency by load, with the capacity and what was wanted. */

/** "ttft=2s@95,tpot=80ms@95" @param {string} text
    @returns {{what: string, limit: number, percentile: string, words: string}[]} */
function wantedLimits(text) {
  return [...text.matchAll(/(\w+)=([\d.]+)\s*(us|ms|s|min)(?:@([\d.]+))?/g)].map((m) => {
    const unit = { us: 1e-6, ms: 1e-3, s: 1, min: 60 }[m[3]] || 1;
    const what = m[1].toUpperCase();
    const percentile = m[4] || "95";
    return { what, limit: +m[2] * unit, percentile, words: `${what} p${percentile}` };
  });
}

/** @param {Capacity} c */
function amountOf(c) {
  return c.users === null
    ? { name: "requests/s", most: c.rate || 0 }
    : { name: "users", most: c.users };
}

/** Users are whole. @param {Capacity} c @param {number} v */
function amount(c, v) {
  return c.users === null ? figure(v) : count(v);
}

/** @param {CapacityPoint} p */
function loadOf(p) {
  return p.users ?? p.rate ?? 0;
}

/** @param {Capacity} c @param {"ttft_s"|"tpot_s"} key @param {string} name */
function latencyCurve(c, key, name) {
  const points = c.curve.filter((p) => p[key].p95 > 0);
  const wanted = wantedLimits(c.slo).find((w) => w.what === name);
  const { most, name: unit } = amountOf(c);
  const of = (/** @type {"p50"|"p95"} */ at) =>
    /** @type {Pair[]} */ (points.map((p) => [loadOf(p), p[key][at]]));
  const xMax = Math.max(...points.map(loadOf), most) * 1.04;
  const limit = wanted ? ` Wanted: ${wanted.words} within ${seconds(wanted.limit)}.` : "";
  const read = points.map((p) => `${amount(c, loadOf(p))} ${unit} ${seconds(p[key].p95)}`);
  const drawing = curve({
    summary: `${name} p95: ${read.join(", ")}.${limit}`,
    xName: unit,
    yName: name,
    xMax,
    log: true,
    series: [
      { class: "limit", points: of("p50") },
      { class: "speed", points: of("p95"), dots: true },
    ],
    verticals:
      most > 0 ? [{ x: most, name: `serves ${amount(c, most)} ${unit}`, quiet: true }] : [],
    horizontals: wanted
      ? [
          {
            y: wanted.limit,
            name: `wanted: ${wanted.words} ${seconds(wanted.limit)}`,
            class: "slo",
            left: true,
          },
        ]
      : [],
    yText: (v) => seconds(v).replace(/\.0+(?=\D)/, ""),
    height: 300,
  });
  /** @type {[string, string][]} */
  const keys = [
    ["speed", "95 of 100 requests"],
    ["limit", "the median"],
  ];
  if (wanted) keys.push(["slo", "what was wanted"]);
  return card(`${name} against load`, null, lineKeys(keys), drawing);
}

/** @param {Capacity} c */
function throughputCurve(c) {
  const { most, name: unit } = amountOf(c);
  /** @type {Pair[]} */
  const points = c.curve.map((p) => [loadOf(p), p.throughput.output_tokens_per_s]);
  const read = points.map((p) => `${amount(c, p[0])} ${unit} ${figure(p[1])}`);
  const drawing = curve({
    summary: `Tokens of answers a second: ${read.join(", ")}.`,
    xName: unit,
    yName: "tok/s",
    xMax: Math.max(...points.map((p) => p[0]), most) * 1.04,
    series: [{ class: "speed", points, dots: true }],
    verticals: most > 0 ? [{ x: most, name: "capacity", quiet: true }] : [],
    height: 300,
  });
  return card("Throughput against load", "tokens of answers, of all users", drawing);
}

/** @param {Capacity} c */
function loadsTable(c) {
  const { most, name: unit } = amountOf(c);
  const head = [
    unit,
    "#req/s",
    "#tok/s",
    "#TTFT p50",
    "#p95",
    "#p99",
    "#TPOT p50",
    "#p99",
    "#KV",
    "#within SLO",
    "state",
  ];
  const rows = c.curve.map((p) => [
    loadOf(p) === most ? `${amount(c, most)} (capacity)` : amount(c, loadOf(p)),
    figure(p.throughput.requests_per_s),
    figure(p.throughput.output_tokens_per_s),
    seconds(p.ttft_s.p50),
    seconds(p.ttft_s.p95),
    p.ttft_s.p99 === null ? "-" : seconds(p.ttft_s.p99),
    seconds(p.tpot_s.p50),
    p.tpot_s.p99 === null ? "-" : seconds(p.tpot_s.p99),
    percent(p.kv.peak),
    p.within_slo === null ? "-" : percent(p.within_slo),
    p.state,
  ]);
  return card("Every load that was simulated", null, smallTable("Loads", head, rows));
}

/** @param {Capacity} c */
function capacityView(c) {
  const { most, name: unit } = amountOf(c);
  const at = c.curve.find((p) => loadOf(p) === most) || c.curve[0];
  const range = span(c.interval, (v) => amount(c, v));
  const [ttft, ttftUnit] = time(at?.ttft_s.p95 || 0);
  const [tpot, tpotUnit] = time(at?.tpot_s.p95 || 0);
  const wanted = wantedLimits(c.slo).map((w) => `${w.words} within ${seconds(w.limit)}`);
  const breaks = c.limited_by
    ? `More of it breaks ${c.limited_by}.`
    : "Nothing was found to break.";
  const changes = c.changes.map((change) => {
    const with_it = change.users ?? change.rate ?? 0;
    const gain = `${amount(c, with_it)} ${unit}, ${signed(with_it / (most || 1) - 1)}`;
    return el("li", {}, el("p", {}, el("b", {}, gain)), el("code", {}, change.flags));
  });
  return [
    verdictCard({
      bad: most <= 0,
      mark: most > 0 ? mark("yes", c.load) : mark("no", "not even one is served"),
      sentence: [
        `${c.model} ${c.quant} on ${partName(c.rig)} serves `,
        el("em", {}, `${amount(c, most)} ${unit}`),
        ".",
      ],
      say: `${breaks} Wanted: ${wanted.join(", ") || c.slo}.`,
      tiles: [
        tile("Capacity", amount(c, most), unit, range ? `80 % interval ${range}` : "no interval"),
        tile("TTFT p95", ttft, ttftUnit, `at ${amount(c, most)} ${unit}`),
        tile("TPOT p95", tpot, tpotUnit, `at ${amount(c, most)} ${unit}`),
        tile(
          "Limited by",
          c.limited_by || "nothing",
          "",
          c.limited_at === null ? "" : `broken at ${amount(c, c.limited_at)} ${unit}`,
        ),
      ],
    }),
    latencyCurve(c, "ttft_s", "TTFT"),
    half(latencyCurve(c, "tpot_s", "TPOT")),
    half(throughputCurve(c)),
    loadsTable(c),
    at && serverPanel(at),
    changes.length > 0 &&
      card("What would help", "each one simulated", el("ul", { class: "advice" }, ...changes)),
    c.command && card("The server", "as it was forecast", command(c.command), ...notes(c.notes)),
    c.warnings.length > 0 && card("Notes", null, ...notes(c.warnings)),
  ].filter((node) => node instanceof HTMLElement);
}

views["rigcast.capacity/1"] = capacityView;
