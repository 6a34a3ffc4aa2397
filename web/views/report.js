"use strict";
/* One request, forecast or measured; and what a load gets of the same server. */

/** @param {Report} r */
function placementMark(r) {
  const { placement, model, rig } = r.scenario;
  const done = r.origin === "measured" ? "measured, " : "";
  const vram = r.memory.some((m) => m.tier === "vram" && m.weights > 0);
  if (isUnified(r)) return mark("yes", `${done}fits in the memory that GPU and CPU share`);
  if (r.outside_ram_bytes > 0) return mark("part", `${done}RAM cannot hold all of it`);
  if (!vram) return mark(rig.gpu_names.length ? "part" : "yes", `${done}all of it in RAM`);
  if (placement.gpu_layers <= model.layers) {
    const words = `${placement.gpu_layers} of ${model.layers} layers in VRAM, the rest in RAM`;
    return mark("part", done + words);
  }
  const moved = Math.max(placement.cpu_moe_layers, placement.cpu_ffn_layers);
  if (moved > 0) return mark("part", `${done}a part of ${moved} layers in RAM`);
  if (r.scenario.kv.policy !== "vram") return mark("part", `${done}weights in VRAM`);
  return mark("yes", `${done}fits: all of it in VRAM`);
}

/** @param {Report} r */
function reportName(r) {
  const s = r.scenario;
  const gpus = s.rig.gpu_names.map(partName);
  const many = gpus.length > 1 && gpus.every((g) => g === gpus[0]);
  const rig = many ? `${gpus.length} x ${gpus[0]}` : gpus.join(", ") || partName(s.rig.cpu_name);
  return { model: `${s.model.full_name} ${s.model.quant}`, rig };
}

/** @param {Report} r */
function missingVerdict(r) {
  const over = r.memory.map((m) => ({ m, bytes: needed(m) - m.capacity }));
  const worst = over.sort((a, b) => b.bytes - a.bytes)[0];
  const name = reportName(r);
  const lack = worst && worst.bytes > 0;
  return verdictCard({
    bad: true,
    mark: mark("no", "does not fit"),
    sentence: [
      `${name.model} does not fit`,
      lack && ": ",
      lack && el("em", {}, `${gib(worst.bytes)} GiB of ${worst.m.tier.toUpperCase()} are missing`),
      ".",
    ],
    say: r.errors.map((e) => `${e.replace(/^does not fit: /, "")}.`).join(" "),
    tiles: [],
  });
}

/** The cliff that is met first, in words. @param {Report} r */
function cliffSentence(r) {
  const c = r.cliffs[0];
  const room = `A context of up to ${count(r.longest_context)} tokens fits.`;
  if (!c) return `No cliff was found. ${room}`;
  const where = c.axis === "context" ? "when the context is set beyond" : "at";
  const tokens = `${count(c.at_tokens)} tokens`;
  return `It falls off the cliff ${where} ${tokens}, ${cliffWords(c)}: ${c.cause}.`;
}

/** @param {Report} r */
function requestVerdict(r) {
  const name = reportName(r);
  const w = r.scenario.workload;
  const there = starts.filter((s) => r.ttft[s[0]]);
  const from = there.find((s) => s[0] === w.start) || there[0];
  const [first, unit] = from ? time(r.ttft[from[0]]?.total_s || 0) : ["-", ""];
  const when = from ? from[1].replace(/^./, (c) => c.toLowerCase()) : "";
  const ttft = span(r.interval.ttft_s, seconds);
  const cold = r.ttft.cold && w.start !== "cold" && `from the SSD ${seconds(r.ttft.cold.total_s)}`;
  const speed = r.decode.tokens_per_s || 0;
  const range = span(r.interval.tokens_per_s, figure);
  const prefill = r.prefill_tokens_per_s;
  const bound = r.bottleneck.decode;
  const free = (/** @type {DeviceMemory} */ m) => m.capacity - needed(m);
  const gpus = r.memory.filter((m) => m.tier === "vram" && m.total > 0);
  const small = gpus.sort((a, b) => free(a) - free(b))[0] || r.memory[0];
  const likely = r.measured ? "its runs" : "80 % interval";
  const before = r.bottleneck.prefill;
  return verdictCard({
    mark: placementMark(r),
    sentence: [
      `${name.model} on ${name.rig} ${r.measured ? "wrote" : "writes"} `,
      el("em", {}, `${figure(speed)} tokens a second`),
      ".",
    ],
    say: cliffSentence(r),
    tiles: [
      tile("First token", first, unit, [when, ttft, cold].filter(Boolean).join("; ")),
      tile("Speed", figure(speed), "tok/s", range ? `${likely} ${range}` : "no interval"),
      tile(
        "Limited by",
        bound ? resource(bound.resource) : "-",
        bound ? percent(bound.share) : "",
        before && prefill
          ? `prompt ${figure(prefill)} tok/s: ${resource(before.resource)} ` + percent(before.share)
          : "",
      ),
      tile(
        isUnified(r) ? "Free for the GPU" : small.tier === "vram" ? "VRAM free" : "RAM free",
        gib(free(small)),
        "GiB",
        `of ${gib(small.capacity)}; room for ${count(r.longest_context)} tokens`,
      ),
    ],
  });
}

/** @param {Report} r @param {Serving} s */
function servingVerdict(r, s) {
  const name = reportName(r);
  const fast = s.interval.fastest;
  const slow = s.interval.slowest;
  const between = (/** @type {(f: ServingFigures) => string} */ of) =>
    fast && slow ? `${of(fast)} to ${of(slow)}` : "";
  const [ttft, ttftUnit] = time(s.ttft_s.p95);
  const [tpot, tpotUnit] = time(s.tpot_s.p95);
  const within = s.within_slo;
  const ok = s.state === "stable" && (within === null || within >= 0.95);
  return verdictCard({
    mark: mark(ok ? "yes" : "part", `${r.measured ? "measured, " : ""}${s.state}: ${s.load}`),
    sentence: [
      `${name.model} on ${name.rig}: the first token of 95 % within `,
      el("em", {}, seconds(s.ttft_s.p95)),
      ".",
    ],
    say: within === null ? "" : `${percent(within)} of the requests are within the SLO.`,
    tiles: [
      tile(
        "TTFT p95",
        ttft,
        ttftUnit,
        between((f) => seconds(f.ttft_s.p95)),
      ),
      tile(
        "TPOT p95",
        tpot,
        tpotUnit,
        between((f) => seconds(f.tpot_s.p95)),
      ),
      tile(
        "Throughput",
        figure(s.throughput.output_tokens_per_s),
        "tok/s",
        `${figure(s.throughput.requests_per_s)} requests/s`,
      ),
      tile("Limited by", s.bound_by, "", `busy ${percent(s.busy)} of the time`),
    ],
  });
}

/** @param {Report} r @param {About} about */
function reportView(r, about) {
  if (!r.fits)
    return [
      missingVerdict(r),
      half(memoryPanel(r)),
      half(advicePanel(r, about)),
      askedPanel(r.scenario),
    ];
  const load = r.serving;
  if (load && r.measured) {
    const said = r.warnings.length > 0 && card("Notes", null, ...notes(r.warnings));
    const figures = [servingVerdict(r, load), latencyPanel(load), serverPanel(load)];
    const asked = [memoryPanel(r), askedPanel(r.scenario, load.load), said];
    return [...figures, ...asked].filter((node) => node instanceof HTMLElement);
  }
  const alike = load || r.measured; // without alternatives
  const one = [
    requestVerdict(r),
    r.decode.by_position.length > 1 && speedPanel(r),
    hoursPanel(r),
    half(memoryPanel(r)),
    half(alike ? tokenPanel(r, about) : advicePanel(r, about)),
    firstTokenPanel(r, about),
    !alike && half(tokenPanel(r, about)),
    !alike && half(feelPanel(r)),
    evidencePanel(r),
    askedPanel(r.scenario),
  ].filter((node) => node instanceof HTMLElement);
  if (!load) return one;
  const [first, ...rest] = one;
  const alone = el("h2", { class: "section" }, "One request alone");
  return [servingVerdict(r, load), latencyPanel(load), serverPanel(load), alone, first, ...rest];
}

views["rigcast.report/1"] = reportView;
