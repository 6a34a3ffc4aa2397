// Pages as people open them: from a file, in light and dark, on a screen and on a phone.
import assert from "node:assert/strict";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import path from "node:path";
import test, { after, before } from "node:test";
import { file, folder, launch, open, overflow, settled, violations } from "./browser.mjs";

const short = process.env.SHORT === "1";
const all = readdirSync(folder)
  .filter((f) => f.endsWith(".html"))
  .map((f) => f.slice(0, -5))
  .sort();
const has = (name) => all.includes(name);
let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

// Of a short run, each page in one of the four.
const looks = [
  { width: 1360, theme: "light" },
  { width: 390, theme: "dark" },
  { width: 1360, theme: "dark" },
  { width: 390, theme: "light" },
];
all.forEach((name, i) => {
  const some = short ? [looks[i % looks.length]] : looks;
  for (const look of some)
    test(`${name}, ${look.width} px, ${look.theme}`, async () => {
      const { page, told } = await open(browser, name, look);
      assert.ok(await page.$("h1"), "the page shows its answer");
      assert.ok((await overflow(page)) <= 0, "nothing is wider than the window");
      assert.deepEqual(await violations(page), []);
      assert.deepEqual(told, []);
      await page.close();
    });
});

if (!short)
  for (const name of all)
    test(`${name} fits windows from 320 px on`, async () => {
      const { page } = await open(browser, name, { width: 320 });
      for (const width of [320, 360, 520, 641, 768, 900, 1024]) {
        await page.setViewport({ width, height: 800 });
        await settled(page);
        await settled(page);
        assert.ok((await overflow(page)) <= 0, `${width} px: wider by ${await overflow(page)}`);
      }
      await page.close();
    });

for (const name of short ? all.slice(0, 3) : all)
  test(`${name} without JavaScript shows the terminal's text`, async () => {
    const { page, told } = await open(browser, name, { script: false, width: 390 });
    const text = await page.$eval("#screen", (pre) => pre.innerText);
    assert.ok(text.trim().length > 60, text);
    assert.ok(!/\u001b/.test(text), "without the terminal's colours");
    assert.ok((await overflow(page)) <= 0);
    assert.deepEqual(told, []);
    await page.close();
  });

for (const name of short ? all.slice(-2) : all)
  test(`${name} opens with the network off`, async () => {
    const { page, told } = await open(browser, name, { offline: true });
    assert.ok(await page.$("h1"));
    assert.deepEqual(told, []);
    await page.close();
  });

const saved = (page) =>
  page.evaluate(
    () =>
      new Promise((done) => {
        URL.createObjectURL = (blob) => (blob.text().then(done), "data:,");
        document.getElementById("save").click();
      }),
  );
for (const name of all.filter((n) => !n.startsWith("sweep")))
  test(`${name}: the JSON that is saved is the command's own, byte by byte`, async () => {
    const { page } = await open(browser, name);
    const own = readFileSync(path.join(folder, `${name}.json`), "utf8");
    assert.equal(await saved(page), own);
    await page.close();
  });

test("pages are small", () => {
  const bytes = (name) => statSync(file(name)).size;
  if (has("simulate")) assert.ok(bytes("simulate") <= 150_000, `${bytes("simulate")}`);
  if (!has("validate")) return;
  const rows = JSON.parse(readFileSync(path.join(folder, "validate.json"), "utf8")).rows.length;
  // 400 kB with 1,224 rows.
  assert.ok(bytes("validate") <= 100_000 + 245 * rows, `${bytes("validate")} with ${rows} rows`);
});

test("the policy lets nothing in and nothing out", async () => {
  let asked = 0;
  const server = createServer((_, response) => response.end(String(++asked))).listen(
    0,
    "127.0.0.1",
  );
  await new Promise((done) => server.once("listening", done));
  const { page, told } = await open(browser, all[0]);
  const tried = await page.evaluate(async (address) => {
    const inline = document.createElement("script");
    inline.textContent = "window.ran = true";
    document.body.append(inline);
    const loads = (tag) =>
      new Promise((done) => {
        const node = document.createElement(tag);
        node.onload = () => done("loaded");
        node.onerror = () => done("refused");
        node.src = address + tag;
        document.body.append(node);
      });
    const fetched = fetch(address).then(
      () => "loaded",
      () => "refused",
    );
    return { ran: !!window.ran, all: [await loads("img"), await loads("script"), await fetched] };
  }, `http://127.0.0.1:${server.address().port}/`);
  assert.deepEqual(tried, { ran: false, all: ["refused", "refused", "refused"] });
  assert.equal(asked, 0);
  assert.ok(told.filter((t) => /Content Security Policy/.test(t)).length >= 4, told.join("\n"));
  await page.close();
  server.close();
});

for (const name of all.filter((n) => n.startsWith("hostile")))
  test(`${name}: names of others are text, and run nothing`, async () => {
    const { page, told } = await open(browser, name);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.$("img"), null);
    const text = await page.evaluate(() => document.body.innerText);
    assert.match(text, /<img src=x onerror=/);
    assert.deepEqual(told, []);
    await page.close();
    const plain = await open(browser, name, { script: false });
    assert.equal(await plain.page.$("img"), null);
    await plain.page.close();
  });
