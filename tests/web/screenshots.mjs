// Pictures of pages: screenshots.mjs FOLDER NAME:WIDTH:THEME[:HEIGHT]...
import path from "node:path";
import { launch, open, settled } from "./browser.mjs";

const [folder, ...shots] = process.argv.slice(2);
const browser = await launch();
for (const shot of shots) {
  const [name, width, theme, height] = shot.split(":");
  const { page } = await open(browser, name, { width: +width, theme });
  const file = path.join(folder, `page-${name}-${theme}.png`);
  if (height) await page.setViewport({ width: +width, height: +height });
  await settled(page);
  await page.screenshot({ path: file, fullPage: !height });
  await page.close();
}
await browser.close();
