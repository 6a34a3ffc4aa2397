"use strict";
/* Figures as people read them: three digits, each with its unit. */

/** @param {number} n */
function count(n) {
  return Math.round(n).toLocaleString("en-US");
}

/** 16384 as "16k". @param {number} n */
function short(n) {
  return n < 1024 ? String(Math.round(n)) : `${+(n / 1024).toFixed(n % 1024 ? 1 : 0)}k`;
}

/** Three digits. @param {number} v */
function figure(v) {
  if (!Number.isFinite(v)) return "-";
  if (v === 0) return "0";
  const size = Math.abs(v);
  if (size < 0.0995) return String(+v.toPrecision(3));
  if (size >= 999.5) return Math.round(v).toLocaleString("en-US");
  return v.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3);
}

/** Figure and unit. @param {number} s @returns {[string, string]} */
function time(s) {
  if (s >= 7200) return [figure(s / 3600), "h"];
  if (s >= 120) return [figure(s / 60), "min"];
  if (s >= 0.9995) return [figure(s), "s"];
  if (s >= 0.9995e-3) return [figure(s * 1e3), "ms"];
  return [figure(s * 1e6), "us"];
}

/** @param {number} s */
function seconds(s) {
  return time(s).join("\u00a0");
}

/** @param {number} bytes */
function gib(bytes) {
  const g = bytes / 2 ** 30;
  return g >= 99.95 ? g.toFixed(0) : g >= 9.995 ? g.toFixed(1) : g.toFixed(2);
}

/** @param {number} v */
function percent(v) {
  return `${Math.round(v * 100)}\u00a0%`;
}

/** An error as a share, with its sign. @param {number} e */
function signed(e) {
  return `${e < 0 ? "\u2212" : "+"}${figure(Math.abs(e) * 100)}\u00a0%`;
}

/** @param {readonly [number|null, number|null]|null|undefined} of
    @param {(v: number) => string} as */
function span(of, as) {
  if (!of || of[0] === null || of[1] === null) return "";
  return `${as(of[0])} to ${as(of[1])}`;
}

/** A part's name without its maker, as people call it. @param {string} part */
function partName(part) {
  return part.replace(/(NVIDIA GeForce|NVIDIA|AMD|Intel) /g, "");
}

/** @type {Record<string, string>} */
const resourceNames = {
  ssd: "SSD read",
  ram: "RAM bandwidth",
  cpu: "CPU compute",
  pcie_h2d: "PCI-E to GPU",
  pcie_d2h: "PCI-E from GPU",
  vram: "VRAM bandwidth",
  gpu: "GPU compute",
  launch: "kernel launches",
  handoff: "hand-overs between devices",
  host: "the runtime's own work",
};

/** @param {string} key */
function resource(key) {
  return resourceNames[key] || key;
}
