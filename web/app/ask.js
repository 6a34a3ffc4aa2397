"use strict";
/* Questions to the program that serves this page. */

/** An error that says what to do. @param {string} message @param {string} [hint] */
function failure(message, hint) {
  return Object.assign(new Error(message), { hint: hint || "" });
}

/** @param {string} path @param {object|null} body null: the path is the question
    @param {AbortSignal} [signal] @returns {Promise<any>} */
async function ask(path, body, signal) {
  for (let tries = 1; ; ++tries) {
    /** @type {RequestInit} */
    const how = body ? { method: "POST", body: JSON.stringify(body) } : {};
    const headers = body ? { "Content-Type": "application/json" } : undefined;
    const response = await fetch(path, { ...how, headers, signal }).catch((e) => {
      if (e.name === "AbortError") throw e;
      throw failure("rigcast does not answer", "Was it ended? In a terminal: rigcast ui");
    });
    if (response.status === 503 && tries < 4) {
      await new Promise((done) => setTimeout(done, 1000));
      continue;
    }
    const answer = await response.json().catch(() => null);
    if (response.ok && answer) return answer;
    const said = answer?.error;
    throw failure(said?.message || `no answer: ${response.status}`, said?.hint);
  }
}

/** @returns {Promise<Catalogue>} */
async function readCatalogue() {
  const names = "gpus cpus ram ssds rigs models quants runtimes loads slos".split(" ");
  const lists = await Promise.all(names.map((name) => ask(`/api/catalogue/${name}`, null)));
  const pairs = names.map((name, i) => [name, lists[i].entries]);
  return /** @type {Catalogue} */ (Object.fromEntries(pairs));
}
