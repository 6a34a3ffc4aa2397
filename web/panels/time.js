"use strict";
/* Where time goes: of the first token by what was there before, and of every token after it. */

/** @type {[keyof Report["ttft"], string, string][]} */
const starts = [
  ["resident", "Model loaded", "the next question"],
  ["warm", "File in page cache", "program restarted"],
  ["cold", "File on the SSD", "machine just started"],
];

/** @param {string} part of a TTFT */
function partClass(part) {
  return part === "load" || part === "prefill" ? part : "tiny";
}

/** @param {Start} start @param {number} longest @param {string} name */
function startTrack(start, longest, name) {
  const parts = Object.entries(start.breakdown_s).filter((b) => b[1] > 0);
  const words = parts.map((b) => `${b[0]} ${seconds(b[1])}`).join(", ");
  const pieces = parts.map(([part, s]) => {
    const style = { width: `${(s / longest) * 100}%` };
    return el("i", { class: partClass(part), title: `${part} ${seconds(s)}`, style });
  });
  const label = `${name}: ${seconds(start.total_s)}; ${words}`;
  return el("div", { class: "track", role: "img", "aria-label": label }, ...pieces);
}

/** @param {Report} r @param {About} about */
function firstTokenPanel(r, about) {
  const there = starts.filter((s) => r.ttft[s[0]]);
  const longest = Math.max(...there.map((s) => r.ttft[s[0]]?.total_s || 0));
  const rows = there.map(([key, name, when]) => {
    const start = /** @type {Start} */ (r.ttft[key]);
    const bound = start.bound_by;
    const waits = bound ? `${resource(bound.resource)} ${percent(bound.share)}` : "";
    return el(
      "div",
      { class: "start" },
      el("p", {}, el("b", {}, name), el("span", { class: "quiet" }, when)),
      startTrack(start, longest, name),
      el("p", { class: "total" }, el("b", {}, seconds(start.total_s)), el("span", {}, waits)),
    );
  });
  /** @type {[string, string][]} */
  const kinds = [
    ["load", "load weights"],
    ["prefill", "read the prompt"],
    ["tiny", "tokenize, transfer, sample"],
  ];
  const keys = kinds.map(([kind, words]) =>
    el("li", {}, el("i", { class: `swatch ${kind}` }), words),
  );
  const out = card(
    "Where time goes until the first token",
    "on one scale, by what was there before, and what it waits for",
    el("div", { class: "starts" }, ...rows),
    el("ul", { class: "keys" }, ...keys),
  );
  out.append(...about.timelines.filter((t) => t.start !== "token").map(timeline));
  return out;
}

/** @param {Timeline} of */
function timeline(of) {
  const rows = of.lanes.map((lane) => ({
    name: lane.name,
    busy: lane.busy_s,
  }));
  const share = (/** @type {{busy: number}} */ row) => percent(row.busy / of.end_s);
  const longest = rows.reduce((a, b) => (b.busy > a.busy ? b : a));
  const words = rows.map((row) => `${row.name} ${share(row)}`);
  const token = of.start === "token";
  const title = token ? "one token" : `from a ${of.start} start`;
  const what = token ? "for the first one after the prompt" : "with the first tokens of the answer";
  return el(
    "div",
    { class: "timeline" },
    el("h3", {}, `Resource by resource, ${title}`),
    el(
      "p",
      { class: "quiet" },
      `${seconds(of.end_s)} ${what}; ${longest.name} is busy longest, ${share(longest)} of it.`,
    ),
    lanes(of, `What each resource does in ${seconds(of.end_s)}: busy ${words.join(", ")}.`),
    more(
      "As a table",
      smallTable(
        `Busy, ${title}`,
        ["resource", "#busy", "#share"],
        rows.map((row) => [row.name, seconds(row.busy), share(row)]),
      ),
    ),
  );
}

/** @param {Report} r @param {About} about */
function tokenPanel(r, about) {
  const uses = Object.entries(r.utilisation)
    .map((u) => /** @type {[string, number]} */ ([u[0], u[1] || 0]))
    .filter((u) => u[1] > 0.0095)
    .sort((a, b) => b[1] - a[1])
    .slice(0, 6);
  const rows = uses.map(([key, share]) =>
    el(
      "div",
      {},
      el("p", { class: "row" }, el("span", {}, resource(key)), el("b", {}, percent(share))),
      el("div", { class: "meter" }, el("i", { style: { width: `${Math.min(1, share) * 100}%` } })),
    ),
  );
  const none = el("p", { class: "quiet" }, "No resource's share of the time was recorded.");
  const hint = "share of the time in which it is busy";
  const steps = about.timelines.filter((t) => t.start === "token").map(timeline);
  const shares = rows.length ? rows : [none];
  return card("Where the time of every next token goes", hint, ...shares, ...steps);
}
