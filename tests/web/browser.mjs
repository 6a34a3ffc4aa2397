// A browser for the tests: pages come from files, and whatever else they ask for is told.
import puppeteer from "puppeteer-core";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

export const folder = path.resolve(process.env.PAGES || "pages");
export const file = (name) => path.join(folder, `${name}.html`);
const axeSource = readFileSync(
  createRequire(import.meta.url).resolve("axe-core/axe.min.js"),
  "utf8",
);

export function launch() {
  return puppeteer.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    headless: true,
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
  });
}

/** Opens a page; `told` collects errors, complaints of the policy, and requests. */
export async function open(
  browser,
  name,
  { width = 1360, theme = "light", script = true, offline = false } = {},
) {
  const page = await browser.newPage();
  const told = [];
  page.on("console", (m) => ["error", "warn"].includes(m.type()) && told.push(m.text()));
  page.on("pageerror", (e) => told.push(String(e.message)));
  const address = pathToFileURL(file(name)).href;
  page.on("request", (r) => {
    const own = r.url() === address || r.url().startsWith("data:,");
    if (!own) told.push(`request: ${r.url()}`);
  });
  await page.setViewport({ width, height: 900 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
  await page.setJavaScriptEnabled(script);
  if (offline) await page.setOfflineMode(true);
  await page.goto(address, { waitUntil: "load" });
  if (script) await settled(page);
  return { page, told };
}

/** Until charts, which are drawn when their width is known, are there. */
export function settled(page) {
  return page.evaluate(
    () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0)))),
  );
}

export function overflow(page) {
  return page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
}

/** What axe finds, in WCAG 2.2 A and AA and best practice, one line each. */
export async function violations(page) {
  const found = await page.evaluate(async (source) => {
    // The policy of the page lets no script in: this one comes from the browser itself.
    if (!window.axe) (0, eval)(source);
    const result = await window.axe.run(document, {
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    });
    return result.violations.map(
      (v) =>
        `${v.id}: ${v.nodes
          .slice(0, 3)
          .map((n) => `${n.html.slice(0, 90)} ${n.any[0]?.message || ""}`)
          .join(" | ")}`,
    );
  }, axeSource);
  return found;
}
