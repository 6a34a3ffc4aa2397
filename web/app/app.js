"use strict";
/* The page of a running program: a question on the left, its answer on the right. */

const dimAfter = 120; // ms: what is answered sooner does not flicker
const progressAfter = 400; // ms: what takes longer says how far it is
const askMoreAfter = 250; // ms without a change: alternatives and contexts are simulated, too

/** @param {string} id */
function part(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

const page = {
  /** @type {Catalogue|null} */
  catalogue: null,
  /** @type {Field[]} */
  fields: [],
  /** @type {AbortController|null} */
  under_way: null,
  timer: 0,
  is_more: false, // what is asked adds to an answer that is shown
  ...readAddress(),
};

/** The element that has the focus, by its place in the answer; -1: it is elsewhere. */
function focusInAnswer() {
  const able = part("answer").querySelectorAll("button, input, select, summary, [tabindex]");
  return [...able].indexOf(/** @type {Element} */ (document.activeElement));
}

/** @param {any} answer @param {string} line what to type for it @param {boolean} waits */
function showAnswer(answer, line, waits) {
  const timelines = answer.timelines || [];
  const about = { title: "", command: line, version: "", timelines, waits };
  const view = views[answer.schema];
  if (!view) throw failure(`this page shows no ${answer.schema}`);
  const going = part("answer").querySelector(".going");
  if (going?.contains(document.activeElement)) part("answer").focus({ preventScroll: true });
  going?.remove();
  const focus = focusInAnswer();
  const scroll = scrollY;
  const again = line && card("The same again", "on the command line", command(line));
  part("answer").replaceChildren(...view(answer, about), ...(again ? [again] : []));
  addApply();
  if (answer.fits === false && page.screen !== "compare") addCompare();
  if (focus >= 0) {
    const able = part("answer").querySelectorAll("button, input, select, summary, [tabindex]");
    /** @type {HTMLElement|undefined} */ (able[focus])?.focus({ preventScroll: true });
    scrollTo(0, scroll);
  }
  const title = part("answer").querySelector("h1")?.textContent || "";
  part("told").textContent = title;
}

/** Alternatives that the form can take get a button. */
function addApply() {
  for (const item of part("answer").querySelectorAll(".advice li")) {
    const flags = item.querySelector("code")?.textContent || "";
    const asked = askedBy(flags);
    if (!asked || page.screen !== "forecast") continue;
    const what = item.querySelector("b")?.textContent || flags;
    const button = el("button", { type: "button", "aria-label": `Apply ${what}` }, "Apply");
    button.onclick = () => {
      part("answer").focus();
      changeAll(asked);
    };
    item.append(button);
  }
}

/** From what does not fit to machines on which it does. */
function addCompare() {
  const link = el("a", { href: addressOf("compare", page.asked) }, "Compare machines for it");
  part("answer")
    .querySelector(".verdict")
    ?.append(el("p", {}, link));
}

/** The last answer stays, dimmed, under what went wrong.
    @param {Error & {hint?: string}} error */
function showError(error) {
  const again = el("button", { type: "button" }, "Try again");
  again.onclick = () => answerNow();
  const answer = part("answer");
  for (const node of answer.querySelectorAll(".error, .bones, .going")) node.remove();
  const heading = answer.querySelector("h1") ? "h2" : "h1";
  const words = el(
    "div",
    {},
    el(heading, {}, error.message),
    error.hint && el("p", {}, error.hint),
  );
  const box = el("div", { class: "card error", role: "alert" }, words, again);
  for (const node of answer.children) node.classList.add("old");
  answer.prepend(box);
}

function showBones() {
  if (part("answer").children.length) return;
  const bones = el("div", { class: "card bones", role: "status" }, "Simulating");
  part("answer").replaceChildren(bones);
}

/** @param {Progress} said */
function showProgress(said) {
  const answer = part("answer");
  if (!answer.querySelector(".going")) {
    const bar = el("progress", { "aria-label": "How far the answer is" });
    const cancel = el("button", { type: "button", onclick: cancelAnswer }, "Cancel");
    answer.querySelector(".bones")?.remove();
    const heading = el(answer.querySelector("h1") ? "h2" : "h1");
    const box = el("div", { class: "card going" }, heading, cancel, bar);
    if (page.is_more) answer.append(box);
    else answer.prepend(box);
    part("told").textContent = said.text;
  }
  const bar = /** @type {HTMLProgressElement} */ (answer.querySelector(".going progress"));
  if (said.share === null) bar.removeAttribute("value");
  else bar.value = said.share;
  /** @type {Element} */ (answer.querySelector(".going :first-child")).textContent = said.text;
}

/** The connection's end is what the server stops for. */
function cancelAnswer() {
  page.under_way?.abort();
  part("answer").classList.remove("busy");
  part("answer").focus();
  if (page.is_more) part("answer").querySelector(".going")?.remove();
  else showError(failure("Cancelled", "The question stands as it was; nobody works on it."));
}

/** @param {Record<string, any>} body @param {AbortController} mine @param {boolean} is_more */
async function answerOnce(body, mine, is_more) {
  page.is_more = is_more;
  const slow = setTimeout(() => part("answer").classList.toggle("busy", !is_more), dimAfter);
  const told = page.screen === "forecast" ? undefined : showProgress;
  const begin = { schema: "", text: is_more ? "What would help?" : "Simulating", share: null };
  const is_told = () => part("answer").querySelector(".going");
  const long = told && setTimeout(() => is_told() || told(begin), progressAfter);
  try {
    const path = { users: "capacity" }[/** @type {string} */ (page.screen)] || page.screen;
    const answer = await ask(`/api/${path}`, body, mine.signal, told);
    if (mine.signal.aborted) return false;
    showAnswer(answer, commandOf(page.screen, page.asked), !is_more);
    return true;
  } catch (e) {
    const error = /** @type {Error} */ (e);
    if (error.name !== "AbortError" && !mine.signal.aborted) showError(error);
    return false;
  } finally {
    clearTimeout(slow);
    clearTimeout(long);
    if (!mine.signal.aborted) part("answer").classList.remove("busy");
  }
}

/** One question at a time: a newer one takes an older one's place. */
async function answerNow() {
  clearTimeout(page.timer);
  page.under_way?.abort();
  if (page.screen === "check") return;
  const mine = (page.under_way = new AbortController());
  showBones();
  const begun = performance.now();
  const body = questionOf(page.screen, page.asked);
  const wants =
    page.screen === "compare" && !["gpus", "rigs", "rig.name", "budget"].some((k) => page.asked[k]);
  if (wants)
    return showError(
      failure(
        "Nothing to compare",
        "Add GPUs or machines, choose one that may get a new part, or state a budget.",
      ),
    );
  if (!(await answerOnce(body, mine, false))) return;
  part("took").textContent = `answered in ${Math.round(performance.now() - begun)} ms`;
  const more = page.screen === "forecast" || page.screen === "users";
  const forecast = page.screen === "forecast" && { by_context: true, timelines: true };
  const ask_more = () => answerOnce({ ...body, advice: true, ...forecast }, mine, true);
  if (more) page.timer = setTimeout(ask_more, askMoreAfter);
}

/** @param {Asked} values */
function changeAll(values) {
  Object.assign(page.asked, values);
  if (values["rig.name"]) page.asked["rig.gpu"] = "";
  if (values["rig.gpu"] && page.asked["rig.name"] === "this") page.asked["rig.name"] = "";
  history.replaceState(null, "", addressOf(page.screen, page.asked));
  sync();
  clearTimeout(page.timer);
  // Of what moves quickly, each frame's last value is asked.
  cancelAnimationFrame(frame);
  frame = requestAnimationFrame(answerNow);
}
let frame = 0;

/** @param {string} key @param {string} value */
function change(key, value) {
  changeAll({ [key]: value });
}

/** What is asked, for a form that is folded. @param {Asked} asked */
function questionWords(asked) {
  const keys = ["model.name", "model.quant", "rig.name", "rig.gpu", "load.preset"];
  const selects = keys
    .filter((key) => asked[key])
    .map((key) => part("ask").querySelector(`[name="${key}"]`));
  const words = selects.map((s) => s instanceof HTMLSelectElement && s.selectedOptions[0]?.text);
  return words.filter(Boolean).join(", ");
}

function sync() {
  /** @type {Asked} */
  const usual = { "kv.type": page.screen === "forecast" || page.screen === "users" ? "f16" : "" };
  /** @type {Asked} */
  const values = { ...usual, "load.preset": "chat", ...page.asked };
  for (const field of page.fields) field.show(values[field.key] || "");
  const summary = el("summary", {}, "The question", el("span", {}, questionWords(page.asked)));
  part("folded")
    .querySelector("summary")
    ?.replaceChildren(...summary.childNodes);
  for (const link of document.querySelectorAll("nav a")) {
    const to = /** @type {ScreenName} */ (link.id.replace("to-", ""));
    link.setAttribute("href", addressOf(to, page.asked));
    if (to === page.screen) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${screens[page.screen]} · rigcast`;
}

function buildForm() {
  if (!page.catalogue) return;
  const groups = page.screen === "check" ? [] : groupsOf(page.catalogue, page.screen, change);
  page.fields = groups.flatMap((group) => group.fields);
  const nodes = groups.map((group) => {
    const fields = group.fields.map((field) => field.node);
    if (group.closed) return more(group.title, el("div", { class: "fields" }, ...fields));
    return el("fieldset", { class: "fields" }, el("legend", {}, group.title), ...fields);
  });
  part("ask").replaceChildren(...nodes);
  part("question").hidden = page.screen === "check";
}

/** Another screen, or another question by its link. */
function route() {
  Object.assign(page, readAddress());
  page.under_way?.abort();
  part("answer").replaceChildren();
  buildForm();
  sync();
  if (page.screen !== "check") return void answerNow();
  const body = el("div", { class: "grid" });
  const take = (/** @type {any} */ answer, /** @type {string} */ name) => {
    body.replaceChildren(...views[answer.schema](answer, fileAbout(name)));
    part("told").textContent = `${name} is shown`;
  };
  const refuse = (/** @type {Error} */ error) => {
    body.replaceChildren(el("div", { class: "card error", role: "alert" }, error.message));
  };
  const heading = el("h1", {}, "Check an answer that is a file");
  part("answer").replaceChildren(heading, filePanel(take, refuse), body);
}

/** @param {string} name @returns {About} */
function fileAbout(name) {
  return { title: name, command: "", version: "", timelines: [] };
}

async function start() {
  part("theme").onclick = changeTheme;
  part("share").onclick = async () => {
    const said = await navigator.clipboard.writeText(location.href).then(
      () => "Copied",
      () => "Copy the address",
    );
    part("share").textContent = said;
    setTimeout(() => (part("share").textContent = "Share"), 1500);
  };
  // A link within the page would take the question's place in the address.
  part("skip").onclick = (e) => {
    e.preventDefault();
    part("answer").focus();
  };
  addEventListener("hashchange", route);
  if (matchMedia("(max-width: 899px)").matches) part("folded").removeAttribute("open");
  route();
  try {
    page.catalogue = await readCatalogue();
    buildForm();
    sync();
  } catch (e) {
    showError(/** @type {Error} */ (e));
  }
}

start();
