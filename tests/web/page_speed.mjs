// Loads one page several times in a real browser and prints milliseconds to its load event.
//   node page_speed.mjs MODULES CHROMIUM ADDRESS ROUNDS
import { createRequire } from "node:module";

const [modules, chromium, address, rounds] = process.argv.slice(2);
const { chromium: browserType } = createRequire(modules + "/")("playwright-core");
const browser = await browserType.launch({
  executablePath: chromium,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const told = [];
for (let round = 0; round < Number(rounds); round += 1) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  await page.goto(address);
  told.push(await page.evaluate(() => {
    const entry = performance.getEntriesByType("navigation")[0];
    return { answered: entry.responseEnd, loaded: entry.loadEventEnd };
  }));
  await context.close();
}
await browser.close();
process.stdout.write(JSON.stringify(told));
