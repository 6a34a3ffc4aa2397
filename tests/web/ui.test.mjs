// The page of a running program, as people use it: by mouse, by keyboard, by link.
import assert from "node:assert/strict";
import path from "node:path";
import test, { after, before } from "node:test";
import { folder, launch, overflow, settled, violations } from "./browser.mjs";
import { rtx, start, states } from "./ui.mjs";

const short = process.env.SHORT === "1";
let browser;
let ui;

before(async () => ([browser, ui] = await Promise.all([launch(), start()])));
after(() => Promise.all([browser.close(), ui.stop()]));

/** Opens a screen; `told` collects errors, and requests that leave for somewhere else. */
async function open(fragment, { width = 1360, theme = "light" } = {}) {
  const page = await browser.newPage();
  const told = [];
  page.on("console", (m) => ["error", "warn"].includes(m.type()) && told.push(m.text()));
  page.on("pageerror", (e) => told.push(String(e.message)));
  page.on("request", (r) => {
    const own = r.url().startsWith(ui.address) || r.url().startsWith("data:");
    if (!own) told.push(`request: ${r.url()}`);
  });
  await page.setViewport({ width, height: 900 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
  await page.goto(`${ui.address}#${fragment}`, { waitUntil: "load" });
  await page.waitForSelector("#answer h1, #answer .error", { timeout: 60_000 });
  if (!fragment.startsWith("check")) await page.waitForSelector("#ask select");
  await page.waitForNetworkIdle({ idleTime: 400, timeout: 90_000 });
  await page.waitForFunction(() => !document.querySelector(".going"), { timeout: 90_000 });
  await settled(page);
  return { page, told };
}
const text = (page, selector) => page.$eval(selector, (node) => node.textContent);
const verdict = (page) => text(page, "#answer h1");

const looks = [
  { width: 1360, theme: "light" },
  { width: 390, theme: "dark" },
  { width: 1360, theme: "dark" },
  { width: 390, theme: "light" },
];
Object.entries(states).forEach(([name, fragment], i) => {
  for (const look of short ? [looks[i % 2]] : looks)
    test(`${name}, ${look.width} px, ${look.theme}`, async () => {
      const { page, told } = await open(fragment, look);
      assert.ok((await overflow(page)) <= 0, "nothing is wider than the window");
      assert.deepEqual(await violations(page), []);
      // The browser itself tells of a status that is an error.
      const own = told.filter((t) => !(name === "error" && /status of 422/.test(t)));
      assert.deepEqual(own, []);
      await page.close();
    });
});

test("no screen is wider than a window from 320 px on", async () => {
  for (const name of ["forecast", "compare"]) {
    const { page } = await open(states[name], { width: 320 });
    for (const width of [320, 360, 768, 900, 1024]) {
      await page.setViewport({ width, height: 800 });
      await settled(page);
      await settled(page);
      assert.ok((await overflow(page)) <= 0, `${name}, ${width} px: ${await overflow(page)}`);
    }
    await page.close();
  }
});

test("an arrow key on the context changes the answer and the address", async () => {
  const { page } = await open(states.forecast);
  const before = await verdict(page);
  await page.focus("input[name='workload.context']");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction(
    (was) => document.querySelector("#answer h1").textContent !== was,
    {},
    before,
  );
  assert.match(page.url(), /workload.context=24576/);
  const focus = await page.evaluate(() => document.activeElement.name);
  assert.equal(focus, "workload.context", "the focus stays where it was");
  await page.close();
});

test("the address alone gives the same answer again", async () => {
  const first = await open(`${states.forecast}&kv.type=q8_0`);
  const second = await open(new URL(first.page.url()).hash.slice(1));
  assert.equal(await verdict(second.page), await verdict(first.page));
  assert.equal(await second.page.$eval("input[value=q8_0]", (e) => e.checked), true);
  await first.page.close();
  await second.page.close();
});

test("an alternative is applied, and the focus moves to the answer", async () => {
  const { page } = await open(`forecast?${rtx}&model.quant=Q8_0&workload.context=32768`);
  const button = await page.waitForSelector(".advice li > button");
  const before = page.url();
  await button.focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction((was) => location.href !== was, {}, before);
  assert.ok(await page.evaluate(() => document.activeElement.id === "answer"));
  await page.close();
});

test("everything is reached by keyboard, with the focus visible", async () => {
  const { page } = await open(states.forecast);
  const there = await page.evaluate(() => {
    const able = "button, select, input:not([type=radio]), summary, [tabindex='0']";
    return [...document.querySelectorAll(able)].filter((e) => e.checkVisibility()).length;
  });
  let seen = 0;
  for (let i = 0; i < 200; ++i) {
    await page.keyboard.press("Tab");
    const here = await page.evaluate(() => {
      const e = document.activeElement;
      if (!e || e === document.body) return null;
      return parseFloat(getComputedStyle(e).outlineWidth) >= 2 ? "" : e.outerHTML.slice(0, 90);
    });
    if (here === null) break;
    assert.equal(here, "");
    ++seen;
  }
  assert.ok(seen >= there, `${seen} of ${there}`);
  await page.close();
});

test("this computer is asked for with one button", async () => {
  const { page } = await open(states.forecast);
  const [here] = await page.$$("xpath/.//button[.='Use this computer']");
  await here.click();
  await page.waitForFunction(() => /rig.name=this/.test(location.href));
  await page.waitForNetworkIdle({ idleTime: 400, timeout: 60_000 });
  assert.equal(await page.$("#answer .error"), null);
  await page.close();
});

test("a file is checked in the page, and sent nowhere", { skip: !process.env.PAGES }, async () => {
  const { page } = await open("check");
  const asked = [];
  page.on("request", (r) => asked.push(r.url()));
  const input = await page.$("input[type=file]");
  await input.uploadFile(path.join(folder, "validate.json"));
  await page.waitForSelector("#answer .grid .verdict");
  assert.deepEqual(asked, []);
  assert.deepEqual(await violations(page), []);
  await page.close();
});

test("lanes show what each device does, from each start and for a token", async () => {
  const { page } = await open(`forecast?${rtx}&model.quant=Q8_0&workload.context=32768`);
  await page.waitForSelector(".timeline .chart rect");
  const titles = await page.$$eval(".timeline h3", (all) => all.map((h) => h.textContent));
  assert.deepEqual(titles, [
    "Resource by resource, from a warm start",
    "Resource by resource, from a cold start",
    "Resource by resource, one token",
  ]);
  const lanes = await page.$$eval(".timeline .chart text.strong", (all) =>
    all.map((t) => t.textContent),
  );
  for (const name of ["SSD", "PCI-E to GPU 0", "GPU 0"]) assert.ok(lanes.includes(name), name);
  const shares = await page.$$eval(".timeline td:last-child", (all) =>
    all.map((td) => parseFloat(td.textContent)),
  );
  assert.ok(shares.length >= 5 && shares.every((s) => s >= 0 && s <= 100), String(shares));
  await page.close();
});

const long = "compare?model.name=llama-3.3-70b&rig.name=dual-rtx-3090&budget=5000";
const health = (page) => page.evaluate(() => fetch("/api/health").then((r) => r.json()));

test("a long answer says how far it is, and is cancelled", async () => {
  const page = await browser.newPage();
  await page.setViewport({ width: 1360, height: 900 });
  await page.goto(`${ui.address}#${long}`);
  await page.waitForFunction(() =>
    /\d of \d+ rigs|tok\/s/.test(document.querySelector(".going :first-child")?.textContent),
  );
  assert.ok(await page.$eval(".going progress", (bar) => bar.value >= 0 && bar.value < 1));
  assert.deepEqual(await violations(page), []);
  assert.equal((await health(page)).busy, 1);
  await page.focus(".going button");
  await page.keyboard.press("Enter");
  assert.match(await text(page, "#answer .error"), /Cancelled/);
  assert.equal(await page.$(".going"), null);
  assert.ok(await page.evaluate(() => document.activeElement.id === "answer"));
  await page.waitForFunction(() =>
    fetch("/api/health")
      .then((r) => r.json())
      .then((h) => !h.busy),
  );
  await page.close();
});

test("a slider's answer is painted soon", async () => {
  const { page } = await open(states.forecast);
  const took = await page.evaluate(async () => {
    const slider = document.querySelector("input[name='workload.context']");
    const out = [];
    for (let i = 0; i < 40; ++i) {
      slider.value = String(1 + (i % 4));
      const changed = new Promise((done) => {
        const watch = new MutationObserver(() => (watch.disconnect(), done()));
        watch.observe(document.getElementById("answer"), { childList: true });
      });
      const begun = performance.now();
      slider.dispatchEvent(new Event("input"));
      await changed;
      await new Promise((done) => requestAnimationFrame(done));
      out.push(performance.now() - begun);
    }
    return out.sort((a, b) => a - b);
  });
  console.log(`slider to answer: p50 ${took[20].toFixed(0)} ms, p95 ${took[38].toFixed(0)} ms`);
  assert.ok(took[38] <= 160, `p95 ${took[38]} ms`);
  await page.close();
});

test("without the server the page says so, and goes on when it is back", async () => {
  const other = await start();
  const port = Number(new URL(other.address).port);
  const page = await browser.newPage();
  await page.setViewport({ width: 1360, height: 900 });
  await page.goto(`${other.address}#${states.forecast}`);
  await page.waitForSelector("#answer h1");
  await page.waitForNetworkIdle({ idleTime: 400, timeout: 60_000 });
  await other.stop();
  await page.focus("input[name='workload.context']");
  await page.keyboard.press("ArrowRight");
  await page.waitForSelector("#answer .error");
  assert.match(await text(page, "#answer .error"), /does not answer.*rigcast ui/);
  const back = await start(port);
  await page.click("#answer .error button");
  await page.waitForFunction(() => !document.querySelector("#answer .error"));
  await page.close();
  await back.stop();
});
