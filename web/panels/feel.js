"use strict";
/* A text that is written as fast as the model would write it, after its first token's wait. */

const story =
  "The cache grows by a row for every token and every layer, and all of it is read again for " +
  "the next one. That is why an answer slows as it gets longer, and why a machine that is quick " +
  "at the start of a chat may crawl at its end. While everything lies in VRAM the slope is " +
  "gentle. Once a part has to wait for RAM or for the link, the same step takes many times as " +
  "long. What is read for each token sets the pace: weights once, and the cache of all that was " +
  "said before.";

/** Nothing moves before somebody asks for it. @param {Report} r */
function feelPanel(r) {
  const speed = r.decode.tokens_per_s || 1;
  const start = r.ttft.resident || r.ttft.warm || r.ttft.cold;
  const wait = start ? start.total_s : 0;
  // Three quarters of a word are a token, as English texts go.
  const words = story.split(/(?<= )/);
  const written = el("p", { class: "written" }, story);
  const told = el("p", { class: "quiet", role: "status" });
  const button = el("button", { type: "button" }, "Play");
  let frame = 0;
  const stop = (/** @type {string} */ why) => {
    cancelAnimationFrame(frame);
    frame = 0;
    button.textContent = "Play";
    told.textContent = why;
  };
  const step = (/** @type {number} */ begin) => {
    const s = (performance.now() - begin) / 1000 - wait;
    const many = Math.max(0, Math.floor(s * speed * 0.75));
    written.textContent = words.slice(0, many).join("");
    if (many >= words.length) stop("");
    else frame = requestAnimationFrame(() => step(begin));
  };
  button.onclick = () => {
    if (frame) return stop("");
    button.textContent = "Stop";
    told.textContent = `The first token comes after ${seconds(wait)}.`;
    step(performance.now());
  };
  return card(
    "Feel it",
    `an answer at ${figure(speed)} tok/s, of a loaded model`,
    el("div", { class: "feel" }, written),
    el("p", { class: "playing" }, button, told),
  );
}
