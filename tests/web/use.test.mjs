// What people do with pages: by keyboard, by filters, on paper.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import test, { after, before } from "node:test";
import { file, launch, open, settled } from "./browser.mjs";

const short = process.env.SHORT === "1";
let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

const use = (name, title, work) =>
  test(`${name}: ${title}`, { skip: !existsSync(file(name)) }, async () => {
    const { page, told } = await open(browser, name);
    await work(page);
    assert.deepEqual(told, []);
    await page.close();
  });
const count = (page, selector) => page.$$eval(selector, (nodes) => nodes.length);
const text = (page, selector) => page.$eval(selector, (node) => node.textContent);

/** Walks with Tab, and gives what had the focus. */
async function walk(page, most) {
  const seen = [];
  for (let i = 0; i < most; ++i) {
    await page.keyboard.press("Tab");
    const here = await page.evaluate(() => {
      const e = document.activeElement;
      if (!e || e === document.body) return null;
      const style = getComputedStyle(e);
      const visible = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
      return { what: `${e.tagName} ${e.className} ${e.textContent?.slice(0, 30)}`, visible };
    });
    if (!here) break;
    seen.push(here);
  }
  return seen;
}

for (const name of short ? ["simulate"] : ["simulate", "plan", "capacity", "sweep", "compare"])
  use(name, "everything is reached by keyboard, with the focus visible", async (page) => {
    const there = await page.evaluate(() => {
      const able = "button, select, input:not([type=radio]), summary, [tabindex='0']";
      return [...document.querySelectorAll(able)].filter((e) => e.checkVisibility()).length;
    });
    const seen = await walk(page, 400);
    assert.ok(seen.length >= there, `${seen.length} of ${there}`);
    assert.deepEqual(
      seen.filter((s) => !s.visible),
      [],
    );
  });

use("simulate", "arrow keys move along the curve", async (page) => {
  await page.focus("input[type=range]");
  const before = await text(page, ".readout");
  for (let i = 0; i < 10; ++i) await page.keyboard.press("ArrowRight");
  const spoken = await page.$eval("input[type=range]", (e) => e.getAttribute("aria-valuetext"));
  assert.notEqual(await text(page, ".readout"), before);
  assert.match(spoken, /tokens: .* tok\/s, waits for/);
  await page.keyboard.press("End");
  assert.match(await text(page, ".readout"), /tok\/s with/);
});

use("simulate", "the first screen has speed, first token, limit and interval", async (page) => {
  const seen = await page.$eval(".verdict", (v) => {
    const box = v.getBoundingClientRect();
    return { text: v.innerText, bottom: box.bottom };
  });
  for (const word of ["First token", "Speed", "Limited by", "80 % interval", "VRAM free", "fits"])
    assert.ok(seen.text.includes(word), word);
  assert.ok(seen.bottom < 900, `${seen.bottom}`);
});

use("simulate", "the theme changes by keyboard, and back", async (page) => {
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await paper();
  await page.focus("#theme");
  await page.keyboard.press("Enter");
  assert.notEqual(await paper(), light);
  await page.keyboard.press("Enter");
  assert.equal(await paper(), light);
});

use("simulate", "the command is copied, or selected where that is not allowed", async (page) => {
  const button = await page.$(".cmd button");
  await button.click();
  await page.waitForFunction(() =>
    /Copied|Selected/.test(document.querySelector(".cmd button").textContent),
  );
});

use("simulate", "prints on a few pages, with no control on them", async (page) => {
  await page.emulateMediaType("print");
  const shown = await page.$$eval("button, input", (all) => all.filter((e) => e.checkVisibility()));
  assert.equal(shown.length, 0);
  const pdf = Buffer.from(await page.pdf({ format: "A4" }));
  const pages = (pdf.toString("latin1").match(/\/Type \/Page\b/g) || []).length;
  assert.ok(pages >= 2 && pages <= 7, `${pages} pages`);
});

use("simulate", "memory and time are told in words, too", async (page) => {
  const labels = await page.$$eval("[role=img]", (all) =>
    all.map((e) => e.getAttribute("aria-label")),
  );
  assert.ok(labels.length >= 6);
  for (const label of labels) assert.ok(label && /\d/.test(label), label);
});

use(
  "simulate",
  "a text is written at the forecast's speed, when somebody asks for it",
  async (page) => {
    const length = () => page.$eval(".written", (p) => p.textContent.length);
    const whole = await length();
    await new Promise((done) => setTimeout(done, 200));
    assert.equal(await length(), whole);
    await page.focus(".playing button");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelector(".written").textContent.length === 0);
    await page.waitForFunction(() => document.querySelector(".written").textContent.length > 20);
    await page.keyboard.press("Enter");
    const stopped = await length();
    await new Promise((done) => setTimeout(done, 200));
    assert.equal(await length(), stopped);
  },
);

use("misfit", "says what is missing where, and colours are not alone", async (page) => {
  assert.match(await text(page, "h1"), /GiB of VRAM are missing/);
  assert.match(await text(page, ".mark"), /does not fit/);
  assert.equal(await count(page, ".bar .over"), 1);
});

use("validate", "filters change rows, picture and count", async (page) => {
  const points = () => count(page, ".chart .glyph");
  const all = await points();
  const select = "[role=search] select";
  const regime = await page.$eval(select, (e) => e.options[1].value);
  await page.select(select, regime);
  await settled(page);
  assert.ok((await points()) < all);
  const rows = await page.$$eval(".stack .data tbody tr", (t) =>
    t.map((r) => r.children[2].textContent),
  );
  assert.deepEqual([...new Set(rows)], [regime]);
  await page.type("[role=search] input", "no such rig");
  assert.match(await text(page, "[role=status]"), /^0 of /);
  assert.match(await page.evaluate(() => document.body.innerText), /No row of this choice/);
});

use("validate", "the farthest off come first, and headers sort", async (page) => {
  const errors = () =>
    page.$$eval(".stack .data tbody tr", (t) =>
      t.map((r) =>
        Math.abs(parseFloat(r.children[5].textContent.replace("\u2212", "-").replace(",", ""))),
      ),
    );
  const first = await errors();
  assert.deepEqual(
    first,
    [...first].sort((a, b) => b - a),
  );
  await page.focus("th[aria-sort] .sort");
  await page.keyboard.press("Enter");
  const last = await errors();
  assert.deepEqual(
    last,
    [...last].sort((a, b) => a - b),
  );
});

use("validate", "another figure is another headline", async (page) => {
  const before = await text(page, "h1");
  const other = await page.$eval(".filters.alone select", (e) => e.options[1].value);
  await page.select(".filters.alone select", other);
  await settled(page);
  assert.notEqual(await text(page, "h1"), before);
});

use("capacity", "has the most that is served and what was wanted in its curve", async (page) => {
  const words = await page.$$eval(".chart text", (all) => all.map((t) => t.textContent).join(" "));
  assert.match(words, /serves \d+ users/);
  assert.match(words, /wanted: TTFT p95 2.00/);
});

use("compare", "shows each model in turn", async (page) => {
  const title = () => text(page, ".stack .card header p");
  const before = await title();
  await page.$eval(".choice label:nth-of-type(2) input", (e) => e.click());
  await settled(page);
  assert.notEqual(await title(), before);
});

use("plan", "the best way is in chart and table, and its command can be copied", async (page) => {
  assert.equal(await count(page, ".glyph.chosen"), 1);
  assert.equal(await count(page, "tr.strong"), 1);
  assert.match(await page.evaluate(() => document.body.innerText), /llama-server -m/);
});

use("sweep", "one key is a curve, another figure another one", async (page) => {
  const path = () => page.$eval(".chart path.speed", (e) => e.getAttribute("d"));
  const before = await path();
  await page.select(".filters select", "vram_bytes");
  await settled(page);
  assert.notEqual(await path(), before);
});

use("sweep-map", "two keys are a table with a figure in each cell", async (page) => {
  const cells = await page.$$eval(".heatmap td", (all) => all.map((td) => td.textContent));
  assert.ok(cells.length >= 40);
  for (const cell of cells) assert.match(cell, /\d|does not fit/);
});
