"use strict";
/* Where memory goes: a bar for each device, with what lies in it. */

/** @param {DeviceMemory} m @returns {[string, string, number][]} */
function partsOf(m) {
  return [
    ["weights", "weights", m.weights],
    ["kv", "KV cache", m.kv],
    ["buffers", "buffers", m.activations + m.staging],
    ["reserved", "reserved", m.overhead],
    ["cache", "page cache", m.page_cache],
  ];
}

/** What must be there: the page cache gives way. @param {DeviceMemory} m */
function needed(m) {
  return m.total - m.page_cache;
}

/** GPU and CPU share one memory, of which the GPU may use a part. @param {Report} r */
function isUnified(r) {
  return r.scenario.rig.ram_name === "unified memory";
}

/** @param {DeviceMemory} m @param {Report} r */
function deviceName(m, r) {
  if (isUnified(r)) return m.tier === "vram" ? "GPU's part of the memory" : "The rest of it";
  const all = r.memory.filter((d) => d.total > 0);
  const one = all.filter((d) => d.tier === m.tier).length === 1;
  return m.tier === "vram" ? (one ? "VRAM" : `VRAM of ${m.device}`) : m.tier.toUpperCase();
}

/** @param {DeviceMemory} m */
function memoryBar(m) {
  const room = Math.max(m.capacity, m.total, 1);
  const parts = partsOf(m).filter((p) => p[2] > 0);
  const words = parts.map((p) => `${p[1]} ${gib(p[2])} GiB`).join(", ");
  const over = needed(m) - m.capacity;
  const label = `${m.device}: ${words} of ${gib(m.capacity)} GiB`;
  const pieces = parts.map(([kind, name, bytes]) => {
    const share = bytes / room;
    const text = share > 0.2 && kind !== "cache" && over <= 0 ? `${name} ${gib(bytes)}` : "";
    const title = `${name} ${gib(bytes)} GiB`;
    return el("i", { class: kind, title, style: { width: `${share * 100}%` } }, text);
  });
  const edge = over > 0 && el("i", { class: "over", style: { width: `${(over / room) * 100}%` } });
  return el("div", { class: "bar", role: "img", "aria-label": label }, ...pieces, edge);
}

/** @param {DeviceMemory} m @param {Report} r */
function memoryTier(m, r) {
  const over = needed(m) - m.capacity;
  const state =
    over > 0
      ? el("b", { class: "bad" }, `${gib(over)} GiB too much for ${gib(m.capacity)} GiB`)
      : el(
          "span",
          { class: "quiet" },
          `${gib(needed(m))} of ${gib(m.capacity)} GiB, ${gib(-over)} free`,
        );
  const parts = partsOf(m).filter((p) => p[2] > 5e6);
  const keys = parts.map(([kind, name, bytes]) =>
    el("li", {}, el("i", { class: `swatch ${kind}` }), `${name} `, el("b", {}, gib(bytes))),
  );
  return el(
    "div",
    { class: "tier" },
    el("p", { class: "row" }, el("b", {}, deviceName(m, r)), state),
    memoryBar(m),
    el("ul", { class: "keys" }, ...keys),
  );
}

/** @param {Report} r @param {string} [title] */
function memoryPanel(r, title) {
  const devices = r.memory.filter((m) => m.total > 0);
  const tiers = devices.map((m) => memoryTier(m, r));
  const disk =
    r.outside_ram_bytes > 0 &&
    el(
      "p",
      { class: "bad" },
      `${gib(r.outside_ram_bytes)} GiB of weights do not fit in RAM: they are read from the disk ` +
        "again for every token.",
    );
  return card(title || "Where memory goes", "GiB at the end of the context", ...tiers, disk);
}
