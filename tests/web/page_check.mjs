// Opens pages in a real browser and reports what a person, a keyboard and a screen reader meet.
//   node page_check.mjs MODULES CHROMIUM ADDRESS < pages.json > report.json
// pages.json: [{name, path, width, scheme}]; one report a page, and one of the keyboard path.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const [modules, chromium, address] = process.argv.slice(2);
const require = createRequire(modules + "/");
const { chromium: browserType } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const pages = JSON.parse(readFileSync(0, "utf8"));
const browser = await browserType.launch({
  executablePath: chromium,
  headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

async function open(scheme, width) {
  const context = await browser.newContext({
    viewport: { width, height: 900 }, colorScheme: scheme, reducedMotion: "reduce",
  });
  const page = await context.newPage();
  const heard = { dialogs: [], console: [], elsewhere: [] };
  page.on("dialog", (dialog) => { heard.dialogs.push(dialog.message()); dialog.dismiss(); });
  page.on("console", (message) => heard.console.push(message.text()));
  page.on("pageerror", (error) => heard.console.push(String(error)));
  page.on("request", (request) => {
    if (!request.url().startsWith(address)) heard.elsewhere.push(request.url());
  });
  return { page, heard };
}

const looks = new Map();
async function check(spec) {
  const look = `${spec.scheme} ${spec.width}`;
  if (!looks.has(look)) looks.set(look, await open(spec.scheme, spec.width));
  const { page, heard } = looks.get(look);
  for (const each of Object.values(heard)) each.length = 0;
  const answer = await page.goto(address + spec.path);
  const told = { name: spec.name, status: answer.status() };
  told.hacked = await page.evaluate(() => window.hacked ?? null);
  told.scripts = await page.evaluate(() => document.scripts.length);
  told.width = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
  await page.evaluate(() => document.querySelectorAll("details").forEach((each) => { each.open = true; }));
  // The page's own policy forbids scripts, so the checker comes in beside it, by the debugger.
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run(document, {
    runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    resultTypes: ["violations"],
  }));
  told.rules = found.passes.length;
  told.violations = found.violations.map((each) => ({
    id: each.id, help: each.help, nodes: each.nodes.slice(0, 3).map((node) => node.html.slice(0, 200)),
  }));
  return { ...told, ...JSON.parse(JSON.stringify(heard)) };
}

// What has focus, after each press of Tab, from the top of a page.
async function walk(page, presses) {
  const stops = [];
  for (let press = 0; press < presses; press += 1) {
    await page.keyboard.press("Tab");
    stops.push(await page.evaluate(() => {
      const at = document.activeElement;
      const box = at.getBoundingClientRect();
      const style = getComputedStyle(at);
      return {
        text: (at.getAttribute("aria-label") || at.value || at.placeholder || at.textContent || "").trim().slice(0, 60),
        tag: at.tagName,
        visible: box.width > 0 && box.bottom > 0 && box.top < innerHeight,
        ring: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0,
      };
    }));
  }
  return stops;
}

async function keyboard(path) {
  const { page } = await open("light", 1280);
  await page.goto(address + "/");
  const told = { stops: await walk(page, 8) };
  await page.goto(address + "/");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  told.skipped = await page.evaluate(() => document.activeElement.id);
  await page.focus("#find");
  await page.keyboard.type(path.job);
  await page.keyboard.press("Enter");
  await page.waitForURL((url) => url.pathname.startsWith("/attempts/"));
  told.found = new URL(page.url()).pathname;
  await page.focus(".onpage a[href='#evidence']");
  await page.keyboard.press("Enter");
  told.jumped = new URL(page.url()).hash;
  await page.focus("main details summary");
  await page.keyboard.press("Enter");
  told.opened = await page.evaluate(() => document.querySelector("main details").open);
  await page.focus(".scroll");
  told.scrollable = await page.evaluate(() => document.activeElement.getAttribute("aria-label"));
  await page.goto(address + "/");
  await page.focus("#f-domain");
  await page.keyboard.type("gpu");
  await page.focus(".filters button");
  await page.keyboard.press("Enter");
  await page.waitForURL((url) => url.searchParams.get("domain") === "gpu");
  told.filtered = await page.locator("tbody tr").count();
  return told;
}

const reports = [];
for (const spec of pages.pages) reports.push(await check(spec));
const told = { pages: reports, keyboard: pages.keyboard ? await keyboard(pages.keyboard) : null };
await browser.close();
process.stdout.write(JSON.stringify(told));
