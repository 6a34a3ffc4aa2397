"use strict";
/* The best way to run a model, and those that nothing beats. */

/** @param {Plan} plan */
function lackView(plan) {
  const say = plan.would_fit ? `What would hold it: ${plan.would_fit}.` : "";
  return [
    verdictCard({
      bad: true,
      mark: mark("no", "does not fit"),
      sentence: [el("em", {}, plan.reason || "No way fits"), "."],
      say,
      tiles: [],
    }),
    rejectedPanel(plan),
  ].filter((node) => node !== null);
}

/** @param {Plan} plan */
function rejectedPanel(plan) {
  if (!plan.rejected.length) return null;
  const table = dataTable({
    label: "Rejected ways",
    rows: plan.rejected,
    first: 20,
    columns: [
      { name: "way", value: (r) => r.what },
      { name: "reason", value: (r) => r.reason },
    ],
  });
  return card("Rejected", `${plan.rejected.length} ways, each with its reason`, table);
}

/** Plain in one colour: what is shown best is the nearest to the corner. @param {Plan} plan */
function qualityPanel(plan) {
  const kinds = ["all of it in VRAM", "a part in RAM", "KV cache in RAM"];
  const kindOf = (/** @type {Report} */ r) => {
    if (r.scenario.kv.policy !== "vram") return 2;
    const p = r.scenario.placement;
    const moved = p.cpu_moe_layers + p.cpu_ffn_layers > 0;
    return moved || p.gpu_layers <= r.scenario.model.layers ? 1 : 0;
  };
  const shown = plan.choices.filter((c) => c.on_front || c === plan.choices[0]);
  const losses = shown.map((c) => c.quality.loss_nats).filter((v) => v > 0);
  const floor = Math.max(1e-4, Math.min(...losses, 1) / 2);
  const marks = shown.map((c) => ({
    x: c.report.decode.tokens_per_s || 0,
    y: Math.max(c.quality.loss_nats, floor),
    kind: kindOf(c.report),
    title:
      `${c.what}: ${figure(c.report.decode.tokens_per_s || 0)} tok/s, ` +
      `loses ${c.quality.loss_nats.toFixed(3)} nats`,
    label: c.what
      .split(",")
      .slice(0, c.what.includes("KV") ? 2 : 1)
      .join(","),
    strong: c === plan.choices[0],
  }));
  return card(
    "Quality against speed",
    "down and to the right is better; the chosen one is filled",
    glyphKeys(kinds),
    scatter({
      marks,
      logY: true,
      floor,
      xName: "tok/s",
      yName: "loss, nats",
      summary:
        `${marks.length} ways by speed and loss of quality; the best one: ${marks[0].title}. ` +
        "The table has the figures.",
    }),
  );
}

/** @param {Plan} plan */
function waysPanel(plan) {
  const shown = plan.choices.filter((c) => c.on_front || c === plan.choices[0]);
  const vram = (/** @type {Choice} */ c) =>
    c.report.memory.filter((m) => m.tier === "vram").reduce((sum, m) => sum + needed(m), 0);
  const table = dataTable({
    label: "Ways that nothing beats",
    rows: shown,
    first: 14,
    strong: (c) => c === plan.choices[0],
    columns: [
      {
        name: "way",
        class: () => "wide",
        value: (c) => c.what,
        show: (c) => (c === plan.choices[0] ? `${c.what} (the best trade)` : c.what),
      },
      {
        name: "loss, nats",
        numeric: true,
        value: (c) => c.quality.loss_nats,
        show: (c) => c.quality.loss_nats.toFixed(3),
      },
      {
        name: "tok/s",
        numeric: true,
        value: (c) => c.report.decode.tokens_per_s,
        show: (c) => figure(c.report.decode.tokens_per_s || 0),
      },
      {
        name: "80 % interval",
        numeric: true,
        value: (c) => c.report.interval.tokens_per_s?.[0] ?? null,
        show: (c) => span(c.report.interval.tokens_per_s, figure) || "-",
      },
      {
        name: "first token",
        numeric: true,
        value: (c) => c.first_token_s,
        show: (c) => seconds(c.first_token_s),
      },
      { name: "turn", numeric: true, value: (c) => c.turn_s, show: (c) => seconds(c.turn_s) },
      {
        name: "context to",
        numeric: true,
        value: (c) => c.report.longest_context,
        show: (c) => count(c.report.longest_context),
      },
      { name: "VRAM, GiB", numeric: true, value: vram, show: (c) => gib(vram(c)) },
    ],
  });
  return card("Ways that nothing beats", `of ${plan.options} that were priced`, table);
}

/** @param {Choice} best */
function planCommands(best) {
  const lines = Object.entries(best.commands).flatMap(([program, text]) =>
    text === null ? [] : [{ program, lines: Array.isArray(text) ? text : [text] }],
  );
  if (!lines.length) return null;
  const parts = lines.flatMap((l) => [el("h3", {}, l.program), ...l.lines.map(command)]);
  return card("What to type", "the best way, in other programs", ...parts);
}

/** @param {Plan} plan @param {About} about */
function planView(plan, about) {
  if (!plan.choices.length) return lackView(plan);
  const best = plan.choices[0];
  const r = best.report;
  const range = span(r.interval.tokens_per_s, figure);
  const [first, unit] = time(best.first_token_s);
  const bound = r.bottleneck.decode;
  const name = r.scenario.model.full_name;
  const verdict = verdictCard({
    bad: best.unmet !== "",
    mark: best.unmet
      ? mark("no", `misses a constraint: ${best.unmet}`)
      : mark("yes", "the best trade of quality for time"),
    sentence: [`Run ${name} as `, el("em", {}, best.what), "."],
    say:
      `On ${reportName(r).rig}, with a context of ${count(r.scenario.workload.context)} tokens. ` +
      `${plan.options} ways were priced` +
      (plan.too_large ? `, ${plan.too_large} more are too large.` : ".") +
      (plan.would_fit ? ` It reads from the disk; what would hold it: ${plan.would_fit}.` : ""),
    tiles: [
      tile(
        "Speed",
        figure(r.decode.tokens_per_s || 0),
        "tok/s",
        range ? `80 % interval ${range}` : "",
      ),
      tile("First token", first, unit, `a turn takes ${seconds(best.turn_s)}`),
      tile(
        "Loss",
        best.quality.loss_nats.toFixed(3),
        "nats",
        `within a factor of ${best.quality.within_factor}`,
      ),
      tile(
        "Limited by",
        bound ? resource(bound.resource) : "-",
        bound ? percent(bound.share) : "",
        `room for ${count(r.longest_context)} tokens`,
      ),
    ],
  });
  const type = best.commands["llama-server"];
  if (typeof type === "string") verdict.append(command(type));
  return [
    verdict,
    half(memoryPanel(r)),
    half(tokenPanel(r, about)),
    plan.choices.length > 1 && qualityPanel(plan),
    plan.choices.length > 1 && waysPanel(plan),
    firstTokenPanel(r, about),
    r.decode.by_position.length > 1 && speedPanel(r),
    planCommands(best),
    evidencePanel(r),
    rejectedPanel(plan),
  ].filter((node) => node instanceof HTMLElement);
}

views["rigcast.plan/1"] = planView;
