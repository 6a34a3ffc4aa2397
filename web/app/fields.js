"use strict";
/* The controls of a question: the browser's own, each for one key. */

/** @typedef {{key: string, node: HTMLElement, show: (value: string) => void}} Field */
/** @typedef {(key: string, value: string) => void} Change */

/** @param {string} label @param {HTMLElement} control @param {Child} [beside] */
function labelled(label, control, beside) {
  const name = el("span", { class: "row" }, el("span", {}, label), beside);
  return el("label", { class: "field" }, name, control);
}

/** @param {string} key @param {string} label @param {[string, string][]} options value and words
    @param {Change} change @returns {Field} */
function selectField(key, label, options, change) {
  const items = options.map(([value, words]) => el("option", { value }, words));
  const select = el("select", { name: key }, ...items);
  select.onchange = () => change(key, select.value);
  const show = (/** @type {string} */ value) => {
    // A link may name what this catalogue has not: the server says so.
    if (!options.some(([known]) => known === value)) {
      select.append(el("option", { value }, value));
      options.push([value, value]);
    }
    select.value = value;
  };
  return { key, node: labelled(label, select), show };
}

/** @param {string} key @param {string} label @param {number[]} steps
    @param {number} usualStep what it is without a value
    @param {(value: number) => string} say @param {Change} change @returns {Field} */
function sliderField(key, label, steps, usualStep, say, change) {
  const told = el("output");
  const last = steps.length - 1;
  const slider = el("input", { type: "range", name: key, min: 0, max: last, step: 1 });
  const tell = (/** @type {number} */ value, /** @type {number} */ at) => {
    told.textContent = say(value);
    slider.setAttribute("aria-valuetext", say(value));
    slider.style.setProperty("--fill", `${(100 * at) / Math.max(1, last)}%`);
  };
  slider.oninput = () => {
    tell(steps[+slider.value], +slider.value);
    change(key, String(steps[+slider.value]));
  };
  const show = (/** @type {string} */ value) => {
    const shown = +value || usualStep;
    const next = steps.findIndex((step) => step >= shown);
    const at = next < 0 ? last : next;
    slider.value = String(at);
    tell(shown, at);
  };
  const node = labelled(label, slider, told);
  const ends = [steps[0], steps[last]].map((step) => el("span", {}, short(step)));
  node.append(el("span", { class: "row ends", "aria-hidden": "true" }, ...ends));
  return { key, node, show };
}

/** @param {string} key @param {string} label @param {string} unit @param {Change} change
    @returns {Field} */
function numberField(key, label, unit, change) {
  const input = el("input", { type: "number", name: key, min: 0, step: "any" });
  input.inputMode = "decimal";
  input.onchange = () => change(key, input.value);
  const show = (/** @type {string} */ value) => void (input.value = value);
  return { key, node: labelled(label, input, unit), show };
}

/** @param {string} key @param {string} label @param {[string, string][]} options
    @param {Change} change @returns {Field} */
function choiceField(key, label, options, change) {
  const node = choice(label, options, "", (value) => change(key, value));
  const show = (/** @type {string} */ value) => {
    for (const input of node.querySelectorAll("input")) input.checked = input.value === value;
  };
  return { key, node, show };
}

/** Several of a list: each chosen one can be left out again.
    @param {string} key @param {string} label @param {[string, string][]} options
    @param {Change} change @returns {Field} */
function severalField(key, label, options, change) {
  const chosen = el("ul", { class: "chosen" });
  const select = el("select", { name: key });
  const words = new Map(options);
  let values = /** @type {string[]} */ ([]);
  const say = (/** @type {string[]} */ next) => change(key, next.join(","));
  const draw = () => {
    const items = values.map((value) => {
      const leave = el("button", { type: "button", "aria-label": `Leave out ${value}` }, "×");
      leave.onclick = () => {
        say(values.filter((v) => v !== value));
        select.focus();
      };
      return el("li", {}, words.get(value) || value, leave);
    });
    chosen.replaceChildren(...items);
    const left = options.filter(([value]) => !values.includes(value));
    const more = left.map(([value, name]) => el("option", { value }, name));
    select.replaceChildren(el("option", { value: "" }, "add one"), ...more);
  };
  select.onchange = () => select.value && say([...values, select.value]);
  const show = (/** @type {string} */ value) => {
    values = value ? value.split(",") : [];
    draw();
  };
  return { key, node: el("div", { class: "several" }, labelled(label, select), chosen), show };
}
