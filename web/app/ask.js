"use strict";
/* Questions to the program that serves this page. */

/** An error that says what to do. @param {string} message @param {string} [hint] */
function failure(message, hint) {
  return Object.assign(new Error(message), { hint: hint || "" });
}

/** How far an answer is. @typedef {{schema: string, text: string, share: number|null}} Progress */

/** The last line of a stream; those before it say how far it is.
    @param {ReadableStream<Uint8Array>} body @param {(said: Progress) => void} told */
async function lastLine(body, told) {
  /** @type {ReadableStream<string>} */
  const texts = body.pipeThrough(/** @type {any} */ (new TextDecoderStream()));
  const reader = texts.getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    const lines = (rest + (value || "")).split("\n");
    rest = lines.pop() || "";
    for (const line of lines) {
      const said = JSON.parse(line);
      if (said.schema !== "rigcast.progress/1") return said;
      told(said);
    }
    if (done) return null;
  }
}

/** @param {string} path @param {object|null} body null: the path is the question
    @param {AbortSignal} [signal] @param {(said: Progress) => void} [told] how far a long one is
    @returns {Promise<any>} */
async function ask(path, body, signal, told) {
  const json = "application/json";
  const lines = "application/x-ndjson";
  /** @type {RequestInit} */
  const how = body
    ? {
        method: "POST",
        body: JSON.stringify(body),
        headers: { "Content-Type": json, Accept: told ? lines : json },
      }
    : {};
  for (let tries = 1; ; ++tries) {
    const response = await fetch(path, { ...how, signal }).catch((e) => {
      if (e.name === "AbortError") throw e;
      throw failure("rigcast does not answer", "Was it ended? In a terminal: rigcast ui");
    });
    if (response.status === 503 && tries < 4) {
      await new Promise((done) => setTimeout(done, 1000));
      continue;
    }
    const streams = told && response.body && response.headers.get("Content-Type") === lines;
    const reading = streams ? lastLine(response.body, told) : response.json();
    const answer = await reading.catch(() => null);
    const said = answer?.error;
    if (response.ok && answer && !said) return answer;
    const lack = response.ok ? "the answer was cut short" : `no answer: ${response.status}`;
    throw failure(said?.message || lack, said?.hint);
  }
}

/** @returns {Promise<Catalogue>} */
async function readCatalogue() {
  const names = "gpus cpus ram ssds rigs models quants runtimes loads slos".split(" ");
  const lists = await Promise.all(names.map((name) => ask(`/api/catalogue/${name}`, null)));
  const pairs = names.map((name, i) => [name, lists[i].entries]);
  return /** @type {Catalogue} */ (Object.fromEntries(pairs));
}
