"use strict";
/* How sure a forecast is, what was asked, and what would change the answer. */

/** @type {[string, string][]} */
const sourceKinds = [
  ["measured", "measured on this rig"],
  ["fitted", "fitted on other rigs' runs"],
  ["published", "measured by others"],
  ["spec", "data sheet"],
  ["assumed", "assumed"],
];

/** @param {Report} r */
function evidencePanel(r) {
  if (r.measured) return measuredPanel(r);
  const kinds = sourceKinds.filter((k) => r.inputs[k[0]] > 0);
  const label = kinds.map((k) => `${r.inputs[k[0]]} ${k[1]}`).join(", ");
  const pieces = kinds.map((k) => el("i", { class: `k-${k[0]}`, style: { flex: r.inputs[k[0]] } }));
  const keys = kinds.map((k) =>
    el("li", {}, el("i", { class: `swatch k-${k[0]}` }), el("b", {}, r.inputs[k[0]]), ` ${k[1]}`),
  );
  const range = r.interval.tokens_per_s;
  const speed = r.decode.tokens_per_s;
  const own = r.correction;
  return card(
    "How sure",
    "the figures behind the forecast, by where they come from",
    el("div", { class: "sure", role: "img", "aria-label": label }, ...pieces),
    el("ul", { class: "keys" }, ...(kinds.length ? keys : [])),
    range &&
      speed &&
      el(
        "p",
        {},
        `In 80 % of such rigs the speed is from ${span(range, figure)} tok/s, ` +
          `${signed(range[0] / speed - 1)} to ${signed(range[1] / speed - 1)}.`,
      ),
    r.inputs_assumed.length > 0 &&
      more(
        `The ${r.inputs_assumed.length} assumed figures`,
        el("ul", { class: "plain" }, ...r.inputs_assumed.map((name) => el("li", {}, name))),
        el("p", { class: "quiet" }, "rigcast probe measures them, on the machine itself."),
      ),
    own && el("p", {}, `Corrected by ${own.runs} runs of this rig itself.`),
    ...notes(r.warnings),
  );
}

/** @param {Report} r */
function measuredPanel(r) {
  const m = /** @type {NonNullable<Report["measured"]>} */ (r.measured);
  const gb = (/** @type {number} */ v) => `${figure(v / 1e9)} GB/s`;
  const ceiling = m.ceiling_bytes_per_s;
  return card(
    "Measured",
    null,
    el("p", {}, `${m.runs} runs on this machine; the interval is the range that they cover.`),
    el(
      "p",
      {},
      `Decoding read ${gb(m.read_bytes_per_s)} of weights and cache`,
      ceiling
        ? `, ${percent(m.read_bytes_per_s / ceiling)} of the ${gb(ceiling)} that this machine's ` +
            "memory was measured to give."
        : ".",
    ),
    ...notes(r.warnings),
  );
}

/** @param {Report} r @param {About} about */
function advicePanel(r, about) {
  const title = r.fits ? "What would help" : "What would make it fit";
  if (!r.advice.length) {
    const found = r.fits ? "Nothing that was simulated is clearly faster." : "Nothing was found.";
    const none = about.waits ? "Alternatives are being simulated." : found;
    return card(title, null, el("p", { class: "quiet" }, none));
  }
  const items = r.advice.map((a) => {
    const gain =
      a.gain > 3
        ? `${figure(a.gain + 1)} times as fast`
        : a.gain > 0
          ? `${percent(a.gain)} faster`
          : "";
    const loss =
      a.loss_nats === null
        ? "loss not known"
        : a.loss_nats > 0
          ? `loses ${a.loss_nats.toFixed(3)} nats`
          : "";
    const figures = [`${figure(a.tokens_per_s)} tok/s`, `first token ${seconds(a.ttft_s)}`];
    return el(
      "li",
      {},
      el("p", {}, el("b", {}, a.change), gain && el("strong", {}, ` ${gain}`)),
      el("p", { class: "quiet" }, [...figures, loss].filter(Boolean).join(", ")),
      el("code", {}, a.flags),
    );
  });
  return card(title, "each one simulated", el("ul", { class: "advice" }, ...items));
}

/** @param {ScenarioFacts} s @param {string} [load] instead of one request */
function askedPanel(s, load) {
  const w = s.workload;
  const p = s.placement;
  const layers = p.gpu_layers > s.model.layers ? "all layers and the head" : `${p.gpu_layers}`;
  const inRam = [
    p.cpu_moe_layers > 0 && `experts of ${p.cpu_moe_layers} layers in RAM`,
    p.cpu_ffn_layers > 0 && `FFNs of ${p.cpu_ffn_layers} layers in RAM`,
  ].filter(Boolean);
  const rows = [
    ["Model", `${s.model.full_name}, ${s.model.quant}`],
    ["GPU", s.rig.gpu_names.join(", ") || "none"],
    ["CPU", s.rig.cpu_name],
    ["RAM", s.rig.ram_name],
    ["SSD", s.rig.ssd_name],
    ["Slot", s.rig.pcie.length ? `PCI-E ${s.rig.pcie.join(", ")}` : "none"],
    ["Runtime", `${s.runtime.full_name} (${s.runtime.era}), ${s.runtime.backend}`],
    ["On the GPU", [`${layers} of ${s.model.layers} layers`, ...inRam].join(", ")],
    ["KV cache", `${s.kv.policy}, ${s.kv.type_k}/${s.kv.type_v}`],
    [
      load ? "Load" : "Request",
      load ||
        `${count(w.prompt_tokens)} + ${count(w.output_tokens)} tokens after ${count(w.depth)}, ` +
          `in a context of ${count(w.context)}, ${w.start} start`,
    ],
  ];
  return card("What was asked", null, smallTable("What was asked", ["", ""], rows));
}
