"use strict";
/* Rigs for a model: what to buy. */

/** @param {Report} r */
function speedEnds(r) {
  const by = r.decode.by_position;
  const w = r.scenario.workload;
  if (!by.length) return { hi: r.decode.tokens_per_s || 0, lo: r.decode.tokens_per_s || 0 };
  const full = speedAt(by, w.context).tokens_per_s;
  return { hi: speedAt(by, w.depth + w.prompt_tokens).tokens_per_s, lo: full };
}

/** @param {Comparison} c @param {number} which model */
function speedsPanel(c, which) {
  const rows = c.rigs.map((rig) => {
    const m = rig.models[which];
    const ends = m.report?.fits ? speedEnds(m.report) : { hi: null, lo: null };
    const speeds =
      ends.hi === null ? m.lack || "" : `${figure(ends.hi)} to ${figure(ends.lo)} tok/s`;
    return {
      label: rig.rig,
      under: m.plan ? m.plan.split(",").slice(0, 2).join(",") : "",
      ...ends,
      title: `${rig.rig}, ${m.plan || ""}: ${speeds}`,
      lack: m.lack || "does not fit",
      dim: !rig.qualifies,
    };
  });
  return dumbbells({
    rows,
    name: "tok/s",
    summary: rows.map((r) => r.title).join("; "),
  });
}

/** @param {Comparison} c @param {number} which */
function moneyPanel(c, which) {
  const marks = c.rigs.flatMap((rig) => {
    const r = rig.models[which].report;
    if (rig.usd === null || !r?.fits || !r.decode.tokens_per_s) return [];
    const range = span(r.interval.tokens_per_s, figure);
    const speed = r.decode.tokens_per_s;
    return [
      {
        x: rig.usd,
        y: speed,
        kind: rig.qualifies ? 0 : 1,
        label: rig.rig,
        title: `${rig.rig}: ${count(rig.usd)} USD, ${figure(speed)} tok/s (${range})`,
        strong: rig === c.rigs[0],
      },
    ];
  });
  if (marks.length < 2) return null;
  return [
    glyphKeys(["qualifies", "beyond the budget, or misses a constraint"]),
    scatter({
      marks,
      xName: "USD",
      yName: "tok/s",
      height: 320,
      budget:
        c.budget_usd === null
          ? undefined
          : { x: c.budget_usd, name: `budget ${count(c.budget_usd)}` },
      summary: `Speed for the money: ${marks.map((m) => m.title).join("; ")}.`,
    }),
  ];
}

/** @param {Comparison} c @param {number} which */
function comparedTable(c, which) {
  const of = (/** @type {ComparedRig} */ rig) => rig.models[which];
  const speed = (/** @type {ComparedRig} */ rig) => of(rig).report?.decode.tokens_per_s ?? null;
  const each = (/** @type {ComparedRig} */ rig) =>
    rig.usd !== null && speed(rig) ? rig.usd / (speed(rig) || 1) : null;
  /** @param {string} name @param {(rig: ComparedRig) => number|null} value
      @param {(v: number) => string} show @returns {Column<ComparedRig>} */
  const column = (name, value, show) => ({
    name,
    numeric: true,
    value,
    show: (rig) => {
      const v = value(rig);
      return v === null ? "-" : show(v);
    },
  });
  return dataTable({
    label: "Every rig in figures",
    rows: c.rigs,
    strong: (rig) => rig === c.rigs[0],
    dim: (rig) => !rig.qualifies,
    search: c.rigs.length > 8,
    columns: [
      { name: "rig", value: (rig) => rig.rig },
      {
        name: "best way",
        value: (rig) => of(rig).plan || of(rig).lack || "does not fit",
        class: () => "wide",
      },
      column(
        "loss, nats",
        (rig) => of(rig).loss_nats,
        (v) => v.toFixed(3),
      ),
      column("tok/s", speed, figure),
      {
        name: "80 % interval",
        numeric: true,
        value: (rig) => of(rig).report?.interval.tokens_per_s?.[0] ?? null,
        show: (rig) => span(of(rig).report?.interval.tokens_per_s, figure) || "-",
      },
      column("first token", (rig) => of(rig).first_token_s, seconds),
      column("context to", (rig) => of(rig).report?.longest_context ?? null, count),
      column("USD", (rig) => rig.usd, count),
      column("USD per tok/s", each, figure),
      column("W", (rig) => rig.watts, count),
    ],
  });
}

/** @param {Comparison} c */
function pricesPanel(c) {
  const rows = c.rigs.flatMap((rig) => [
    ...rig.price.parts.map((p) => [rig.rig, p.part, count(p.usd), p.kind, p.date || "-", p.source]),
    ...rig.price.unpriced.map((part) => [rig.rig, part, "no price", "-", "-", "-"]),
  ]);
  if (!rows.length) return null;
  const head = ["rig", "part", "#USD", "kind", "date", "source"];
  return card("Prices", "without tax", more("Every price", smallTable("Prices", head, rows)));
}

/** @param {Comparison} c */
function comparisonView(c) {
  const models = c.rigs[0]?.models.map((m) => m.model) || [];
  const best = c.rigs.find((rig) => rig.qualifies) || c.rigs[0];
  const upper = c.verdict.replace(/^./, (first) => first.toUpperCase());
  const [, why, what] = /^(?:([^:]*): )?(.*)$/s.exec(upper) || ["", "", upper];
  const qualify = c.rigs.filter((rig) => rig.qualifies).length;
  const ok = qualify > 0;
  const tie = c.ties.length ? ` The intervals of ${c.ties.join(", ")} overlap: a tie.` : "";
  const left = c.beyond_budget ? ` ${c.beyond_budget} parts cost more than the budget.` : "";
  const tiles = (best?.models || []).slice(0, 3).map((m) => {
    const r = m.report;
    const speed = r?.fits ? figure(r.decode.tokens_per_s || 0) : "-";
    const range = r ? span(r.interval.tokens_per_s, figure) : "";
    return tile(m.model, speed, "tok/s", range ? `${best.rig}: 80 % interval ${range}` : "");
  });
  if (best && best.usd !== null)
    tiles.push(
      tile(
        "Price",
        count(best.usd),
        "USD",
        `${best.rig}: of the ${c.price_of.replace("gpus", "GPUs")}`,
      ),
    );
  if (best && best.watts !== null)
    tiles.push(tile("Power", count(best.watts), "W", "GPUs and CPU at their limits"));
  const figures = el("div", { class: "stack" });
  const draw = (/** @type {number} */ which) => {
    const money = moneyPanel(c, which);
    figures.replaceChildren(
      card(
        "Speed of every rig",
        `${models[which]}; filled: half-way through the context, hollow: in a full one`,
        speedsPanel(c, which),
      ),
      ...(money ? [card("Speed for the money", models[which], ...money)] : []),
      card("In figures", models[which], comparedTable(c, which)),
    );
  };
  if (models.length) draw(0);
  /** @type {[string, string][]} */
  const names = models.map((m, i) => [String(i), m]);
  return [
    verdictCard({
      mark: mark(
        ok ? "yes" : "no",
        ok ? `${qualify} of ${c.rigs.length} rigs qualify` : "none qualifies",
      ),
      bad: !ok,
      sentence: [why && `${why}: `, el("em", {}, what), "."],
      say: (tie + left).trim(),
      tiles,
    }),
    models.length > 1 && choice("Model in the pictures and the table", names, "0", (v) => draw(+v)),
    figures,
    pricesPanel(c),
  ].filter((node) => node instanceof HTMLElement);
}

views["rigcast.comparison/1"] = comparisonView;
