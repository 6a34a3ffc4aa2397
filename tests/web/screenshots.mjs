// Pictures of pages: screenshots.mjs FOLDER NAME:WIDTH:THEME...
import path from "node:path";
import { launch, open } from "./browser.mjs";

const [folder, ...shots] = process.argv.slice(2);
const browser = await launch();
for (const shot of shots) {
  const [name, width, theme] = shot.split(":");
  const { page } = await open(browser, name, { width: +width, theme });
  const file = path.join(folder, `${name}-${width}-${theme}.png`);
  await page.screenshot({ path: file, fullPage: true });
  await page.close();
}
await browser.close();
