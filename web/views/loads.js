"use strict";
/* Machines and ways that serve a load: `capacity` of several machines, `compare` and `plan`. */

/** @param {string} unit @param {number|null|undefined} amount */
function amountWords(unit, amount) {
  return amount === null || amount === undefined ? "" : `${served(unit)(amount)} ${unit}`;
}

/** Users are whole. @param {string} unit */
function served(unit) {
  return unit === "users" ? count : figure;
}

/** @param {readonly [number|null, number|null]} interval @param {string} unit */
function likely(interval, unit) {
  const words = span(interval, served(unit));
  return words && `80 % interval ${words}`;
}

/** @param {RigLoads} l */
function rigLoadsTable(l) {
  const fleet = l.rigs.some((rig) => rig.fleet);
  /** @param {(rig: RigLoad) => number|null|undefined} value @param {string} name
      @param {(v: number) => string} show @returns {Column<RigLoad>} */
  const column = (name, value, show) => ({
    name,
    numeric: true,
    value: (rig) => value(rig) ?? null,
    show: (rig) => {
      const v = value(rig);
      return v === null || v === undefined ? "-" : show(v);
    },
  });
  const columns = [
    { name: "rig", value: (/** @type {RigLoad} */ rig) => rig.rig },
    {
      name: "way",
      value: (/** @type {RigLoad} */ rig) => rig.way?.what || rig.why_not || "-",
      class: () => "wide",
    },
    column(`${l.unit} of one`, (rig) => rig.way?.serves, served(l.unit)),
    {
      name: "80 % interval",
      numeric: true,
      value: (/** @type {RigLoad} */ rig) => rig.way?.interval[0] ?? null,
      show: (/** @type {RigLoad} */ rig) => span(rig.way?.interval, served(l.unit)) || "-",
    },
    { name: "limited by", value: (/** @type {RigLoad} */ rig) => rig.way?.limited_by || "-" },
    column(fleet ? "USD of all" : "USD", (rig) => rig.usd ?? rig.usd_of_machine, count),
    column(`USD per ${l.unit === "users" ? "user" : "request/s"}`, (rig) => rig.usd_each, figure),
    column("W", (rig) => rig.watts, count),
  ];
  if (fleet)
    columns.splice(
      2,
      0,
      column("machines", (rig) => rig.fleet?.machines, count),
    );
  return dataTable({
    label: "Every machine",
    rows: l.rigs,
    search: l.rigs.length > 8,
    strong: (rig) => rig === l.rigs[0] && !!rig.way,
    dim: (rig) => !rig.way,
    columns,
  });
}

/** @param {RigLoads} l */
function rigLoadsCards(l) {
  const able = l.rigs.filter((rig) => rig.way && rig.way.serves > 0);
  const best = able[0];
  const asked = amountWords(l.unit, l.users ?? l.rate);
  const marks = able.flatMap((rig) => {
    const usd = rig.usd ?? rig.usd_of_machine;
    if (usd === null || usd === undefined || !rig.way) return [];
    const title = `${rig.rig}: ${count(usd)} USD, ${amountWords(l.unit, rig.way.serves)} of one`;
    return [{ x: usd, y: rig.way.serves, kind: 0, label: rig.rig, title, strong: rig === best }];
  });
  return [
    verdictCard({
      bad: !best,
      mark: best
        ? mark("yes", [l.load, asked].filter(Boolean).join(", "))
        : mark("no", "nothing serves it"),
      sentence: [`${l.model}: `, el("em", {}, l.verdict), "."],
      say: `Wanted: ${l.slo}.`,
      tiles: best?.way
        ? [
            tile(
              `${best.rig} serves`,
              served(l.unit)(best.way.serves),
              l.unit,
              likely(best.way.interval, l.unit),
            ),
            tile("Limited by", best.way.limited_by || "nothing", "", best.way.what),
          ]
        : [],
    }),
    marks.length > 1 &&
      card(
        "What is served for the money",
        `price of the ${l.price_of}`,
        scatter({
          marks,
          xName: "USD",
          yName: l.unit,
          height: 320,
          summary: `${marks.map((m) => m.title).join("; ")}.`,
        }),
      ),
    card("Every machine", null, rigLoadsTable(l)),
    best?.way &&
      card("The server", best.rig, ...best.way.command.split("\n").filter(Boolean).map(command)),
  ].filter((node) => node instanceof HTMLElement);
}

/** @param {LoadPlan} p */
function loadPlanView(p) {
  const unit = p.users === null ? "requests/s" : "users";
  const amount = amountWords(unit, p.users ?? p.rate);
  const best = p.choices[0];
  const fleet = best.fleet;
  const machines = fleet
    ? `${count(fleet.machines)} ${fleet.machines === 1 ? "machine" : "machines"}`
    : "";
  const table = dataTable({
    label: "Ways to serve the load",
    rows: p.choices,
    strong: (c) => c === best,
    search: p.choices.length > 8,
    columns: [
      { name: "way", value: (c) => c.what },
      {
        name: "machines",
        numeric: true,
        value: (c) => c.fleet?.machines ?? null,
        show: (c) => (c.fleet ? count(c.fleet.machines) : "-"),
      },
      {
        name: `${unit} of one`,
        numeric: true,
        value: (c) => c.serves,
        show: (c) => served(unit)(c.serves),
      },
      {
        name: "80 % interval",
        numeric: true,
        value: (c) => c.interval[0],
        show: (c) => span(c.interval, served(unit)) || "-",
      },
      { name: "limited by", value: (c) => c.limited_by || "-" },
      {
        name: "loss, nats",
        numeric: true,
        value: (c) => c.loss_nats,
        show: (c) => c.loss_nats.toFixed(3),
      },
      {
        name: "USD of all",
        numeric: true,
        value: (c) => c.usd,
        show: (c) => (c.usd === null ? "-" : count(c.usd)),
      },
    ],
  });
  return [
    verdictCard({
      bad: !fleet,
      mark: fleet ? mark("yes", `${p.load}, ${amount}`) : mark("no", "nothing is served"),
      sentence: [`${p.model} for ${amount}: `, el("em", {}, machines || "no way serves it"), "."],
      say: `${best.what}. Wanted: ${p.slo}.`,
      tiles: [
        tile("One serves", served(unit)(best.serves), unit, likely(best.interval, unit)),
        tile("Limited by", best.limited_by || "nothing", "", p.runtime),
        ...(fleet?.ttft_s
          ? [
              tile(
                "TTFT p95",
                ...time(fleet.ttft_s.p95),
                `with ${amountWords(unit, fleet.share_of_server)} each`,
              ),
            ]
          : []),
      ],
    }),
    card("Ways to serve it", "the fewest machines first", table),
    card("What to type", null, ...best.command.split("\n").filter(Boolean).map(command)),
    p.notes.length + p.warnings.length > 0 &&
      card("Notes", null, ...notes([...p.notes, ...p.warnings])),
  ].filter((node) => node instanceof HTMLElement);
}

views["rigcast.capacities/1"] = rigLoadsCards;
views["rigcast.load_comparison/1"] = rigLoadsCards;
views["rigcast.load_comparisons/1"] = (/** @type {{models: RigLoads[]}} */ all) =>
  all.models.flatMap(rigLoadsCards);
views["rigcast.load_plan/1"] = loadPlanView;
