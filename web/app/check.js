"use strict";
/* An answer that is a file already: it is read here, and sent nowhere. */

/** @param {(answer: any, name: string) => void} take @param {(error: Error) => void} refuse */
function filePanel(take, refuse) {
  const input = el("input", { type: "file", accept: ".json,application/json" });
  const read = async (/** @type {File|undefined} */ file) => {
    if (!file) return;
    try {
      const answer = JSON.parse(await file.text());
      if (!Object.hasOwn(views, answer?.schema))
        throw failure(`${file.name} is no answer of rigcast that a page shows`);
      take(answer, file.name);
    } catch (e) {
      const bad = e instanceof SyntaxError ? failure(`${file.name} is not JSON`) : e;
      refuse(/** @type {Error} */ (bad));
    }
  };
  input.onchange = () => read(input.files?.[0]);
  const panel = card(
    "A validation, or any other answer",
    "a file of --format json: drop it here; it is read in this page and sent nowhere",
    labelled("File", input),
    command("rigcast validate --against runs.jsonl --format json -o errors.json"),
  );
  panel.classList.add("drop");
  panel.ondragover = (e) => {
    e.preventDefault();
    panel.classList.add("over-it");
  };
  panel.ondragleave = () => panel.classList.remove("over-it");
  panel.ondrop = (e) => {
    e.preventDefault();
    panel.classList.remove("over-it");
    read(e.dataTransfer?.files[0]);
  };
  return panel;
}
