"use strict";
/* A page alone: the answer stands in the document, as JSON and as the terminal's text. */

/** A list, or an object, whose values stand behind their keys.
    @typedef {{open: "["|"{", items: {key: string, value: Tree}[]}} Branch
    @typedef {string|Branch} Tree */

/** Lists of objects with the same keys are tables in a page.
    @param {Branch} table @returns {Tree} */
function unpacked(table) {
  const keys = /** @type {Branch} */ (table.items[0].value).items;
  const rows = /** @type {Branch} */ (table.items[1].value).items;
  const items = rows.map((row) => {
    const values = /** @type {Branch} */ (row.value).items;
    const fields = values.map((v, i) => ({ key: String(keys[i].value), value: v.value }));
    return { key: "", value: /** @type {Branch} */ ({ open: "{", items: fields }) };
  });
  return { open: "[", items };
}

/** Figures and strings stay the text that they are: 0.0 does not become 0.
    @param {string[]} tokens the next one last @returns {Tree} */
function parsed(tokens) {
  const token = tokens.pop() || "null";
  if (token !== "[" && token !== "{") return token;
  /** @type {Branch} */
  const out = { open: token, items: [] };
  const end = token === "[" ? "]" : "}";
  while (tokens.length && tokens[tokens.length - 1] !== end) {
    const key = token === "{" ? tokens.pop() || "" : "";
    out.items.push({ key, value: parsed(tokens) });
  }
  tokens.pop();
  return out.items[0]?.key === '"$table"' ? unpacked(out) : out;
}

/** With two spaces for each level, as `--format json` has it.
    @param {Tree} tree @param {string} indent @returns {string} */
function indented(tree, indent) {
  if (typeof tree === "string") return tree;
  const [open, end] = tree.open === "[" ? ["[", "]"] : ["{", "}"];
  if (!tree.items.length) return open + end;
  const deeper = indent + "  ";
  const lines = tree.items.map(
    (item) => deeper + (item.key && `${item.key}: `) + indented(item.value, deeper),
  );
  return `${open}\n${lines.join(",\n")}\n${indent}${end}`;
}

/** The very text of `--format json`, of what a page holds: without line breaks, lists as tables,
    and no "<", which might end its script. @param {string} text */
function restored(text) {
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[[\]{}]|[^[\]{},:"\s]+/g) || [];
  const tree = parsed(tokens.map((token) => token.replace(/\\(?:u003c|.)/g, plain)).reverse());
  return indented(tree, "") + "\n";
}

/** @param {string} escape */
function plain(escape) {
  return escape === "\\u003c" ? "<" : escape;
}

/** @param {string} id */
function embedded(id) {
  return document.getElementById(id)?.textContent || "null";
}

function saveJson() {
  const text = restored(embedded("answer"));
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  el("a", { href: url, download: "rigcast.json" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/** @param {About} about */
function pageHead(about) {
  const theme = el(
    "button",
    { type: "button", id: "theme", onclick: changeTheme },
    "Light or dark",
  );
  const save = el("button", { type: "button", id: "save", onclick: saveJson }, "Save the JSON");
  const name = el(
    "p",
    {},
    el("strong", {}, "rigcast"),
    el("span", { class: "quiet" }, about.title),
  );
  return el("header", { class: "head" }, name, el("p", { class: "end" }, theme, save));
}

/** @param {Element} screen */
function screenCard(screen) {
  screen.setAttribute("tabindex", "0");
  screen.setAttribute("role", "region");
  screen.setAttribute("aria-label", "The terminal's text");
  return card("As in the terminal", null, more("Show the text", screen));
}

function showPage() {
  const answer = JSON.parse(restored(embedded("answer")));
  /** @type {About} */
  const about = JSON.parse(restored(embedded("about")));
  const view = views[answer.schema];
  const main = document.querySelector("main");
  const screen = document.getElementById("screen");
  if (!view || !main || !screen) return;
  const again = card("The same again", "on the command line", command(about.command));
  const body = el("div", { class: "grid" }, ...view(answer, about), again);
  main.before(pageHead(about));
  main.prepend(body);
  body.append(screenCard(screen));
}

showPage();
