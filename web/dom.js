"use strict";
/* Builds elements. Text comes in as text nodes: nothing of an answer is ever read as HTML. */

/** What draws an answer, by the schema of its JSON.
    @type {Record<string, (answer: any, about: About) => Node[]>} */
const views = {};

/** @typedef {Node|string|number|null|undefined|false} Child */

/** @param {Element} node @param {Record<string, any>} attributes @param {Child[]} children */
function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (name === "style")
      for (const [key, of] of Object.entries(value))
        /** @type {HTMLElement} */ (node).style.setProperty(key, String(of));
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children)
    if (child !== null && child !== undefined && child !== false)
      node.append(child instanceof Node ? child : String(child));
}

/** @template {keyof HTMLElementTagNameMap} K
    @param {K} tag @param {Record<string, any>} [attributes] @param {...Child} children */
function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  fill(node, attributes || {}, children);
  return node;
}

/** @template {keyof SVGElementTagNameMap} K
    @param {K} tag @param {Record<string, any>} [attributes] @param {...Child} children */
function svg(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(node, attributes || {}, children);
  return node;
}

/** @param {string} title @param {string|null} hint @param {...Child} children */
function card(title, hint, ...children) {
  const head = el("header", {}, el("h2", {}, title), hint && el("p", {}, hint));
  return el("section", { class: "card" }, head, ...children);
}

/** Beside another one where there is room. @param {HTMLElement} node */
function half(node) {
  node.classList.add("half");
  return node;
}

const shapes = {
  yes: "M2.5 8.5l3.5 3.5 7.5-8",
  part: "M8 2l6.5 11.5h-13zM8 6.5v3.2M8 11.4v.4",
  no: "M3.5 3.5l9 9m0-9l-9 9",
};

/** A verdict in words, with a shape as well as a colour.
    @param {"yes"|"part"|"no"} kind @param {string} words */
function mark(kind, words) {
  const path = svg("path", { d: shapes[kind], class: "stroke" });
  return el(
    "p",
    { class: `mark ${kind}` },
    svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, path),
    words,
  );
}

/** @param {string} name @param {string} value @param {string} unit @param {string} why */
function tile(name, value, unit, why) {
  return el(
    "div",
    { class: "tile" },
    el("dt", {}, name),
    el(
      "dd",
      { class: value.length > 9 ? "big words" : "big" },
      value,
      unit && el("small", {}, unit),
    ),
    el("dd", { class: "why" }, why),
  );
}

/** The answer: a sentence, what stands behind it, and figures.
    @param {{mark: Node, sentence: Child[], say: string, tiles: Node[], bad?: boolean}} of */
function verdictCard(of) {
  return el(
    "section",
    { class: of.bad ? "card verdict bad" : "card verdict" },
    of.mark,
    el("h1", {}, ...of.sentence),
    of.say && el("p", { class: "say" }, of.say),
    of.tiles.length > 0 && el("dl", { class: "tiles" }, ...of.tiles),
  );
}

/** A table that scrolls sideways by itself where it is too wide.
    @param {string} label @param {HTMLTableElement} table */
function scrolled(label, table) {
  return el("div", { class: "table", tabindex: "0", role: "region", "aria-label": label }, table);
}

/** A table of a few rows; the first column names each. Where the name of another one begins with
    "#", it holds figures.
    @param {string} label @param {string[]} head @param {Child[][]} rows */
function smallTable(label, head, rows) {
  const numeric = head.map((h, i) => i > 0 && h.startsWith("#"));
  const names = head.map((h, i) =>
    el("th", { scope: "col", class: numeric[i] && "n" }, h.replace(/^#/, "")),
  );
  const body = rows.map((row) =>
    el(
      "tr",
      {},
      ...row.map((cell, i) =>
        i === 0 ? el("th", { scope: "row" }, cell) : el("td", { class: numeric[i] && "n" }, cell),
      ),
    ),
  );
  const named = head.some((h) => h !== "") && el("thead", {}, el("tr", {}, ...names));
  return scrolled(label, el("table", {}, named, el("tbody", {}, ...body)));
}

/** @param {string} summary @param {...Child} children */
function more(summary, ...children) {
  return el("details", { class: "more" }, el("summary", {}, summary), ...children);
}

/** A line to type, with a button that copies it. @param {string} line */
function command(line) {
  const code = el("code", {}, line);
  const button = el("button", { type: "button" }, "Copy");
  button.onclick = async () => {
    let said = "Copied";
    try {
      await navigator.clipboard.writeText(line);
    } catch {
      getSelection()?.selectAllChildren(code);
      said = "Selected";
    }
    button.textContent = said;
    setTimeout(() => (button.textContent = "Copy"), 1500);
  };
  return el("div", { class: "cmd" }, code, button);
}

/** @param {string[]} texts */
function notes(texts) {
  return texts.map((text) => el("p", { class: "quiet note" }, `Note: ${text}.`));
}

/** Choices that exclude each other, as native radio buttons.
    @param {string} label @param {[string, string][]} options value and words
    @param {string} chosen @param {(value: string) => void} take */
function choice(label, options, chosen, take) {
  const name = `choice-${document.querySelectorAll(".choice").length}-${label.replace(/\W/g, "")}`;
  const items = options.map(([value, words]) => {
    const input = el("input", { type: "radio", name, value, checked: value === chosen });
    input.onchange = () => take(value);
    return el("label", {}, input, words);
  });
  return el("fieldset", { class: "choice" }, el("legend", {}, label), ...items);
}

function changeTheme() {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = root.dataset.theme || (dark ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
}
