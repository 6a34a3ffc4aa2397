"use strict";
/* Which controls each screen has, and the question that they make. */

/** Lists of the catalogue, as `rigcast list WHAT --format json` has them.
    @typedef {Record<"gpus"|"cpus"|"ram"|"ssds"|"rigs"|"models"|"quants"|"runtimes"|"loads"|"slos",
      any[]>} Catalogue */

/** @typedef {{title: string, fields: Field[], closed?: boolean}} Group */

const contexts = [2048, 4096, 8192, 16384, 24576, 32768, 49152, 65536, 98304, 131072, 262144];

/** @param {any[]} entries @param {(entry: any) => string} say @returns {[string, string][]} */
function optionsOf(entries, say) {
  const all = entries.map((e) => /** @type {[string, string]} */ ([e.id, say(e)]));
  return all.sort((a, b) => a[1].localeCompare(b[1], "en", { numeric: true }));
}

/** @param {any} gpu */
function gpuWords(gpu) {
  return `${partName(gpu.name)}, ${gib(gpu.memory_bytes).replace(/\.0+$/, "")} GiB`;
}

/** @param {string} words @returns {[string, string]} */
function usual(words) {
  return ["", words];
}

/** @param {Catalogue} c @param {ScreenName} screen @param {Change} change @returns {Group} */
function modelGroup(c, screen, change) {
  const searched = screen === "plan" || screen === "compare";
  const mixes = c.quants.map((q) => /** @type {[string, string]} */ ([q.id, q.id]));
  const open = searched ? "searched" : "usual";
  const tokens = (/** @type {number} */ n) => `${count(n)} tokens`;
  /** @type {[string, string][]} */
  const caches = ["f16", "q8_0", "q4_0"].map((type) => [type, type]);
  if (searched) caches.unshift(usual("searched"));
  return {
    title: "Model",
    fields: [
      selectField(
        "model.name",
        "Model",
        optionsOf(c.models, (m) => m.name),
        change,
      ),
      selectField("model.quant", "Quant", [usual(open), ...mixes], change),
      sliderField("workload.context", "Context", contexts, 8192, tokens, change),
      choiceField("kv.type", "KV cache", caches, change),
    ],
  };
}

/** @param {Catalogue} c @param {ScreenName} screen @param {Change} change @returns {Group[]} */
function machineGroups(c, screen, change) {
  const rigs = optionsOf(c.rigs, (r) => r.name);
  const named = (/** @type {any[]} */ entries) => [
    usual("usual"),
    ...optionsOf(entries, (e) => e.name),
  ];
  const rig = selectField(
    "rig.name",
    "Machine",
    [usual("of the parts below"), ["this", "this computer"], ...rigs],
    change,
  );
  const here = el("button", { type: "button" }, "Use this computer");
  here.onclick = () => change("rig.name", "this");
  rig.node = el("div", { class: "several" }, rig.node, here);
  const gpus = optionsOf(c.gpus, gpuWords);
  const gpu = selectField("rig.gpu", "GPU", [usual("none, or the machine's"), ...gpus], change);
  const runtimes = [usual("llama.cpp"), ...optionsOf(c.runtimes, (r) => r.id)];
  return [
    { title: "Machine", fields: screen === "compare" ? [rig] : [rig, gpu] },
    {
      title: "Other parts and the runtime",
      closed: true,
      fields: [
        selectField("rig.cpu", "CPU", named(c.cpus), change),
        selectField("rig.ram", "RAM", named(c.ram), change),
        selectField("rig.ssd", "SSD", named(c.ssds), change),
        selectField("runtime.name", "Runtime", runtimes, change),
      ],
    },
  ];
}

/** @param {Catalogue} c @param {ScreenName} screen @param {Change} change @returns {Group[]} */
function wishGroups(c, screen, change) {
  /** @type {[string, string][]} */
  const rather = [
    usual("balance"),
    ["speed", "speed"],
    ["quality", "quality"],
    ["context", "context"],
  ];
  if (screen === "plan")
    return [
      {
        title: "Wishes",
        fields: [
          choiceField("objective", "Rather", rather, change),
          numberField("min_tps", "At least", "tok/s", change),
          numberField("max_ttft", "First token within", "s", change),
        ],
      },
    ];
  if (screen === "compare")
    return [
      {
        title: "What to compare",
        fields: [
          severalField("gpus", "GPUs", optionsOf(c.gpus, gpuWords), change),
          severalField(
            "rigs",
            "Machines",
            optionsOf(c.rigs, (r) => r.name),
            change,
          ),
          numberField("budget", "Budget", "USD", change),
        ],
      },
    ];
  if (screen !== "users") return [];
  const slos = c.slos.map((s) => /** @type {[string, string]} */ ([s.id, `${s.id}: ${s.slo}`]));
  return [
    {
      title: "Users",
      fields: [
        selectField(
          "load.preset",
          "Load",
          optionsOf(c.loads, (l) => l.id),
          change,
        ),
        selectField("load.slo", "Latencies wanted", [usual("the load's own"), ...slos], change),
      ],
    },
  ];
}

/** @param {Catalogue} c @param {ScreenName} screen @param {Change} change */
function groupsOf(c, screen, change) {
  const groups = [modelGroup(c, screen, change), ...wishGroups(c, screen, change)];
  return [...groups, ...machineGroups(c, screen, change)];
}

/** The keys that a screen's question has. @param {ScreenName} screen @param {Asked} asked */
function asksFor(screen, asked) {
  /** @type {Record<string, RegExp>} */
  const wishes = { plan: /^(objective|min_tps|max_ttft)$/, compare: /^(gpus|rigs|budget)$/ };
  const wish = wishes[screen] || /^$/;
  return Object.entries(asked).filter(([key, value]) => {
    if (value === "") return false;
    if (!key.includes(".")) return wish.test(key);
    if (key.startsWith("load.")) return screen === "users";
    return !(key === "rig.gpu" && screen === "compare" && (asked.gpus || asked.rigs));
  });
}

/** A value of a scenario, as JSON has it: numbers are numbers, but for those that name something.
    @param {string} key @param {string} value */
function scenarioValue(key, value) {
  if (key === "rig.gpu") return value.split(",");
  const names = /\.(name|cpu|ram|ssd|pcie|quant|preset|slo|type)$/;
  return /^\d+(\.\d+)?$/.test(value) && !names.test(key) ? +value : value;
}

/** The body of the question. @param {ScreenName} screen @param {Asked} asked */
function questionOf(screen, asked) {
  /** @type {Record<string, any>} */
  const body = { scenario: {} };
  for (const [key, value] of asksFor(screen, asked)) {
    const [table, name] = key.split(".");
    if (name) {
      const keys = (body.scenario[table] ||= {});
      if (key === "kv.type") keys.type_k = keys.type_v = value;
      else keys[name] = scenarioValue(key, value);
    } else if (key === "gpus" || key === "rigs") body[key] = value.split(",");
    else if (key === "max_ttft") body.max_ttft = `${value}s`;
    else if (key === "objective") body.objective = value;
    else body[key] = +value;
  }
  if (screen === "users") body.scenario.load ||= { preset: "chat" };
  if (screen === "users") body.scenario.load.preset ||= "chat";
  return body;
}

/** @type {Record<string, string>} */
const flagsOf = {
  "model.name": "--model",
  "model.quant": "--quant",
  "workload.context": "--context",
  "kv.type": "--kv-type",
  "rig.name": "--rig",
  "rig.gpu": "--gpu",
  "rig.cpu": "--cpu",
  "rig.ram": "--ram",
  "rig.ssd": "--ssd",
  "runtime.name": "--runtime",
  "load.preset": "--load",
  "load.slo": "--slo",
  objective: "--objective",
  min_tps: "--min-tps",
  max_ttft: "--max-ttft",
  gpus: "--gpus",
  rigs: "--rigs",
  budget: "--budget",
};

/** @type {Record<string, string>} */
const verbs = { forecast: "simulate", plan: "plan", compare: "compare", users: "capacity" };

/** What to type for the same answer. @param {ScreenName} screen @param {Asked} asked */
function commandOf(screen, asked) {
  const said = asksFor(screen, asked);
  if (screen === "users" && !asked["load.preset"]) said.push(["load.preset", "chat"]);
  const word = (/** @type {string} */ text) =>
    /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`;
  const words = said.map(([key, value]) => {
    const shown = key === "max_ttft" ? `${value}s` : value;
    return flagsOf[key] ? `${flagsOf[key]} ${word(shown)}` : `--set ${word(`${key}=${shown}`)}`;
  });
  return ["rigcast", verbs[screen], ...words].join(" ");
}

/** What a change's flags set; null: what the form has not.
    @param {string} flags @returns {Asked|null} */
function askedBy(flags) {
  const keys = Object.fromEntries(Object.entries(flagsOf).map(([key, flag]) => [flag, key]));
  const words = flags.split(/\s+/);
  /** @type {Asked} */
  const out = {};
  for (let i = 0; i < words.length; i += 2) {
    const key = words[i] === "--gpu-layers" ? "placement.gpu_layers" : keys[words[i]];
    if (!key || words[i + 1] === undefined) return null;
    out[key] = words[i + 1];
  }
  return out;
}
