// Pictures of pages: screenshots.mjs FOLDER NAME:WIDTH:THEME[:HEIGHT]...
// NAME: a page of scripts/pages.sh, or ui-STATE, of ui.mjs.
import path from "node:path";
import { launch, open, settled } from "./browser.mjs";
import { start, states } from "./ui.mjs";

const [folder, ...shots] = process.argv.slice(2);
const type = process.env.TYPE || "webp"; // a third of a PNG
const browser = await launch();
const ui = shots.some((shot) => shot.startsWith("ui-")) ? await start() : null;

/** A screen of the running program, with all that it answers. */
async function openScreen(name, { width, theme }) {
  const page = await browser.newPage();
  await page.setViewport({ width, height: 900 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
  await page.goto(`${ui.address}#${states[name]}`);
  await page.waitForSelector("#answer h1");
  await page.waitForNetworkIdle({ idleTime: 500, timeout: 90_000 });
  await page.waitForFunction(() => !document.querySelector(".going"), { timeout: 90_000 });
  return page;
}

for (const shot of shots) {
  const [name, width, theme, height] = shot.split(":");
  const look = { width: +width, theme };
  const page = name.startsWith("ui-")
    ? await openScreen(name.slice(3), look)
    : (await open(browser, name, look)).page;
  const file = path.join(folder, `page-${name}-${theme}.${type}`);
  if (height) await page.setViewport({ width: +width, height: +height });
  await settled(page);
  const quality = type === "webp" ? { quality: 60 } : {};
  await page.screenshot({ path: file, type, ...quality, fullPage: !height });
  await page.close();
}
await ui?.stop();
await browser.close();
