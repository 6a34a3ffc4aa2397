"use strict";
/* What is asked stands in the address, behind "#": a link to it is the same question, and the
   server keeps nothing. */

/** @typedef {"forecast"|"plan"|"compare"|"users"|"check"} ScreenName
    @typedef {Record<string, string>} Asked values by the keys of a scenario, and of wishes */

/** @type {Record<ScreenName, string>} */
const screens = {
  forecast: "Forecast",
  plan: "Plan",
  compare: "Compare",
  users: "Users",
  check: "Check",
};

/** @type {Asked} */
const firstQuestion = {
  "model.name": "llama-3.1-8b",
  "rig.gpu": "rtx-3060-12gb",
  "workload.context": "16384",
};

/** @returns {{screen: ScreenName, asked: Asked}} */
function readAddress() {
  const [name, query] = location.hash.slice(1).split("?");
  const screen = /** @type {ScreenName} */ (Object.hasOwn(screens, name) ? name : "forecast");
  const asked = Object.fromEntries(new URLSearchParams(query || ""));
  return { screen, asked: query ? asked : { ...firstQuestion } };
}

/** @param {ScreenName} screen @param {Asked} asked */
function addressOf(screen, asked) {
  const said = Object.entries(asked).filter(([, value]) => value !== "");
  return `#${screen}?${new URLSearchParams(said)}`;
}
