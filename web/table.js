"use strict";
/* A table of many rows: searched, filtered, sorted, and shown in parts. */

/** @template R
    @typedef {{name: string, value: (row: R) => Cell, show?: (row: R) => Child, numeric?: boolean,
      filter?: boolean, class?: (row: R) => string}} Column */

/** @template R
    @typedef {{label: string, columns: Column<R>[], rows: R[],
      sort?: {column: number, down: boolean},
      strong?: (row: R) => boolean, dim?: (row: R) => boolean,
      onfilter?: (rows: R[]) => void,
      search?: boolean, first?: number}} DataTable */

/** @param {Cell} a @param {Cell} b */
function compareCells(a, b) {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

/** @template R @param {DataTable<R>} of @param {() => void} again
    @returns {{nodes: Node[], keeps: (row: R) => boolean}} */
function filters(of, again) {
  /** @type {Node[]} */
  const nodes = [];
  /** @type {((row: R) => boolean)[]} */
  const tests = [];
  if (of.search !== false) {
    const input = el("input", { type: "search", autocomplete: "off", spellcheck: "false" });
    input.oninput = again;
    tests.push((row) => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      const text = of.columns
        .map((c) => String(c.value(row) ?? ""))
        .join(" ")
        .toLowerCase();
      return words.every((word) => text.includes(word));
    });
    nodes.push(el("label", { class: "field wide" }, el("span", {}, "Search"), input));
  }
  for (const column of of.columns.filter((c) => c.filter)) {
    const values = [...new Set(of.rows.map((row) => String(column.value(row) ?? "-")))];
    if (values.length < 2 || values.length > 200) continue;
    values.sort((a, b) => compareCells(a, b));
    const options = values.map((v) => el("option", { value: v }, v));
    const select = el("select", {}, el("option", { value: "" }, "all"), ...options);
    select.onchange = again;
    tests.push((row) => !select.value || String(column.value(row) ?? "-") === select.value);
    nodes.push(el("label", { class: "field" }, el("span", {}, column.name), select));
  }
  return { nodes, keeps: (row) => tests.every((test) => test(row)) };
}

/** @template R @param {DataTable<R>} of */
function dataTable(of) {
  let sort = of.sort || null;
  let limit = of.first || 50;
  const body = el("tbody");
  const told = el("p", { class: "quiet", role: "status" });
  const button = el("button", { type: "button" });
  const { nodes, keeps } = filters(of, () => refilter());
  const heads = of.columns.map((column, i) => {
    const order = el("button", { type: "button", class: "sort" }, column.name);
    order.onclick = () => {
      const down = sort?.column === i ? !sort.down : !!column.numeric;
      sort = { column: i, down };
      redraw();
    };
    return el("th", { scope: "col", class: column.numeric && "n" }, order);
  });
  /** @type {R[]} */
  let shown = [];

  const cells = (/** @type {R} */ row) =>
    of.columns.map((column, i) => {
      const value = column.value(row);
      const content = column.show ? column.show(row) : (value ?? "-");
      const kind = [column.numeric && "n", column.class?.(row)].filter(Boolean).join(" ") || null;
      if (i === 0) return el("th", { scope: "row", class: kind }, /** @type {Child} */ (content));
      return el("td", { class: kind }, /** @type {Child} */ (content));
    });
  const redraw = () => {
    const rows = [...shown];
    if (sort) {
      const { column, down } = sort;
      const value = of.columns[column].value;
      rows.sort((a, b) => {
        const [x, y] = [value(a), value(b)];
        const missing = Number(x === null) - Number(y === null);
        return missing || compareCells(x, y) * (down ? -1 : 1);
      });
    }
    heads.forEach((th, i) => {
      const way = sort?.down ? "descending" : "ascending";
      if (sort?.column === i) th.setAttribute("aria-sort", way);
      else th.removeAttribute("aria-sort");
    });
    const lines = rows.slice(0, limit).map((row) => {
      const kind = of.strong?.(row) ? "strong" : of.dim?.(row) ? "dim" : null;
      return el("tr", { class: kind }, ...cells(row));
    });
    body.replaceChildren(...lines);
    const rest = rows.length - lines.length;
    button.hidden = rest <= 0;
    button.textContent = `Show ${count(Math.min(rest, 200))} more`;
    const some = rest > 0 ? `, ${count(lines.length)} of them shown` : "";
    told.textContent = `${count(rows.length)} of ${count(of.rows.length)} rows${some}`;
  };
  const refilter = () => {
    shown = of.rows.filter(keeps);
    redraw();
    of.onfilter?.(shown);
  };
  button.onclick = () => {
    limit += 200;
    redraw();
  };
  shown = of.rows;
  redraw();
  const table = el("table", {}, el("thead", {}, el("tr", {}, ...heads)), body);
  const filtered = nodes.length > 0;
  return el(
    "div",
    { class: "data" },
    filtered && el("div", { class: "filters", role: "search", "aria-label": of.label }, ...nodes),
    filtered && told,
    scrolled(of.label, table),
    button,
  );
}
