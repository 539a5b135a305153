// Clicks through the dashboard as people do, with Playwright, and has axe-core look at every page.
//
//	node clicks.mjs URL URL-OF-A-JOB-SERVER FOLDER-OF-NODE-MODULES CHROMIUM [PICTURES]
//
// TestClicks (clicks_test.go) starts it beside a board with a run that goes on, one that has ended, a long one, a damaged
// one and a hundred small ones, and writes more of the first one's journal when this program prints "go on".
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import assert from "node:assert/strict";

const [url, kept, modules, program, pictures] = process.argv.slice(2);
const require = createRequire(join(resolve(modules), "x.js"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
const patience = 60_000;

// page opens a tab that notes whatever is wrong, and what comes over the wire.
async function open(path, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(patience);
  const wrong = [];
  page.on("console", (m) => { if (["error", "warning"].includes(m.type())) wrong.push(m.text()); });
  page.on("pageerror", (e) => wrong.push(e.message));
  page.on("request", (r) => { if (!r.url().startsWith(url) && !r.url().startsWith(kept)) wrong.push("asks elsewhere: " + r.url()); });
  const wire = await context.newCDPSession(page);
  await wire.send("Network.enable");
  const load = { page, wrong, bytes: 0, wire };
  wire.on("Network.loadingFinished", (e) => { load.bytes += e.encodedDataLength; });
  await page.goto(new URL(path, url).href);
  return load;
}

async function close({ page, wrong }, what) {
  assert.deepEqual(wrong, [], `${what}: the page complains`);
  await page.context().close();
}

const step = (name) => console.log("step:", name);
const rows = (page) => page.locator("table.list tbody tr");

step("first loads, accessibility and width: every page, dark and light, wide and narrow");
for (const path of ["/", kept, "/?q=none-is-called-so", "/?sort=-spent", "/runs/now-1", "/runs/ended-1", "/runs/long-1", "/runs/damaged-1", "/runs/now-1/events", "/runs/nobody-1"]) {
  const all = ["/", kept, "/runs/now-1"].includes(path); // what they look like decides for the others, too
  for (const width of all ? [1440, 768, 390, 360] : [1440, 390]) {
    for (const colorScheme of all && width !== 768 ? ["light", "dark"] : [width === 1440 ? "light" : "dark"]) {
      const load = await open(path, { viewport: { width, height: 800 }, colorScheme, reducedMotion: "reduce", bypassCSP: true });
      assert.ok(load.bytes < 300 * 1024, `${path}: ${load.bytes} bytes at the first load`);
      const wide = await load.page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `${path} is ${wide} wide on a screen of ${width}`);
      await load.page.evaluate(() => { for (const d of document.querySelectorAll("details")) d.open = true; });
      await load.page.evaluate(axe);
      const found = await load.page.evaluate(() => window.axe.run());
      assert.deepEqual(found.violations.map((v) => `${v.id}: ${v.nodes[0].html.slice(0, 200)}`), [], `${path} at ${width}, ${colorScheme}`);
      if (pictures) await load.page.screenshot({ path: join(pictures, `${path.replace(kept, "server").replace(/\W+/g, "-").replace(/^-/, "") || "list"}-${width}-${colorScheme}.png`), fullPage: true });
      if (width === 1440 && colorScheme === "light") console.log(`${path}: ${load.bytes} bytes`);
      load.wrong = load.wrong.filter((w) => !(path === "/runs/nobody-1" && w.includes("404")));
      await close(load, path);
    }
  }
}

step("the list: filter, sort, next page");
{
  const load = await open("/");
  const { page } = load;
  assert.equal(await rows(page).count(), 50);
  await page.getByRole("link", { name: "after" }).click();
  await page.waitForURL(/page=2/);
  assert.ok((await rows(page).count()) > 0);
  await page.getByRole("searchbox").fill("small-1");
  await page.getByRole("button", { name: "Filter" }).click();
  await page.waitForURL(/q=small-1/);
  for (const name of await rows(page).locator("th").allInnerTexts()) assert.match(name, /small-1/);
  await page.getByRole("link", { name: /Show all/ }).click();
  await page.getByLabel("State").selectOption("finished");
  await page.getByRole("button", { name: "Filter" }).click();
  await page.waitForURL(/state=finished/);
  assert.deepEqual(await rows(page).locator("th").allInnerTexts(), ["ended-1"]);
  await page.goto(url + "/");
  await page.locator("table.list").getByRole("columnheader", { name: "spent" }).getByRole("link").click();
  await page.waitForURL(/sort=-spent/);
  const spent = (await rows(page).locator('td[data-is="spent"]').allInnerTexts()).map((t) => Number(t.replace("$", "")));
  assert.deepEqual(spent, [...spent].sort((a, b) => b - a));
  assert.equal(await page.locator("table.list").getByRole("columnheader", { name: "spent" }).getAttribute("aria-sort"), "descending");
  await close(load, "the list");
}

step("a run that goes on: why, figures, and what stays while it is put anew");
{
  const load = await open("/runs/now-1");
  const { page } = load;
  const decision = page.locator("details.decision").first();
  await decision.locator("summary").click();
  await decision.getByText("chosen", { exact: true }).first().waitFor();
  const id = await decision.getAttribute("id");
  await page.locator("figure summary").first().click();
  await page.locator("#machines .scroll").evaluate((s) => { s.scrollTop = 40; });
  await page.evaluate(() => { window.stayed = document.querySelector("#machines tbody tr"); window.scrollTo(0, 900); });
  await page.locator("#machines .scroll").focus({ preventScroll: true });
  const before = await page.evaluate(() => ({ y: scrollY, events: document.querySelectorAll(".events li").length, clock: document.querySelector("progress")?.value }));
  console.log("go on");
  await page.waitForFunction((clock) => document.querySelector("progress")?.value > clock, before.clock, { timeout: patience });
  const after = await page.evaluate((id) => ({
    open: document.getElementById(id).open, figures: document.querySelector("figure details").open,
    scrolled: document.querySelector("#machines .scroll").scrollTop, focused: document.activeElement === document.querySelector("#machines .scroll"),
    same: window.stayed.isConnected,
  }), id);
  assert.deepEqual(after, { open: true, figures: true, scrolled: 40, focused: true, same: true });
  await close(load, "the run that goes on");
}

step("memory: an open page does not grow as it is put anew for as long as an hour's worth of times");
{
  const load = await open("/runs/now-1");
  const { page, wire } = load;
  // What is being parsed at the moment counts, too: the least of several looks is what stays.
  const heap = async () => {
    const least = { usedSize: Infinity, nodes: Infinity };
    for (let look = 0; look < 25; look++) {
      await wire.send("HeapProfiler.collectGarbage");
      const { usedSize } = await wire.send("Runtime.getHeapUsage");
      const { nodes } = await wire.send("Memory.getDOMCounters");
      least.usedSize = Math.min(least.usedSize, usedSize);
      least.nodes = Math.min(least.nodes, nodes);
    }
    return least;
  };
  // Time goes as fast as the machine can: the page's next timeout is due at once.
  await page.addInitScript(() => { const real = window.setTimeout; window.asked = 0; window.setTimeout = (f) => { window.asked++; return real(f, 0); }; });
  await page.reload();
  const until = (n) => page.waitForFunction((n) => window.asked >= n, n, { timeout: patience * 3 });
  await until(60);
  const early = await heap();
  await until(460);
  const late = await heap();
  console.log(`after 60 times ${early.usedSize} bytes and ${early.nodes} nodes, after 460 ${late.usedSize} and ${late.nodes}`);
  assert.ok(late.usedSize < early.usedSize * 2 + 2e6 && late.nodes < early.nodes * 2 + 5000, "the page's memory grows");
  await close(load, "the page that is put anew");
}

step("events: search and filter, back to the run");
{
  const load = await open("/runs/long-1");
  const { page } = load;
  await page.getByRole("searchbox").fill("evicted");
  await page.getByRole("button", { name: "Search" }).click();
  await page.waitForURL(/events\?q=evicted/);
  for (const text of await page.locator(".events li").allInnerTexts()) assert.match(text.toLowerCase(), /evict/);
  await page.getByLabel("Kind").selectOption("stage");
  await page.getByRole("searchbox").fill("");
  await page.getByRole("button", { name: "Filter" }).click();
  await page.waitForURL(/kind=stage/);
  assert.equal(await page.locator(".events li.stage").count(), await page.locator(".events li").count());
  await page.getByRole("link", { name: "long-1" }).click();
  await page.getByRole("link", { name: "journal.jsonl" }).waitFor();
  await close(load, "events");
}

step("keyboard: the skip link comes first, focus is visible, and everything is reached");
{
  const load = await open("/runs/now-1", { viewport: { width: 390, height: 700 } });
  const { page } = load;
  await page.keyboard.press("Tab");
  const skip = await page.evaluate(() => { const e = document.activeElement, b = e.getBoundingClientRect(); return { text: e.textContent, seen: b.left >= 0 && b.top >= 0 }; });
  assert.deepEqual(skip, { text: "Skip to the figures", seen: true });
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await page.goto(url + "/runs/now-1");
  const reached = new Set();
  for (let i = 0; i < 120; i++) {
    await page.keyboard.press("Tab");
    const at = await page.evaluate(() => {
      const e = document.activeElement;
      if (e === document.body) return undefined;
      const s = getComputedStyle(e);
      return { what: e.tagName, line: s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2 };
    });
    if (!at) break;
    assert.ok(at.line, `the focus on ${at.what} cannot be seen`);
    reached.add(at.what);
  }
  for (const what of ["A", "SUMMARY", "DIV", "INPUT", "BUTTON"]) assert.ok(reached.has(what), `no ${what} is reached by the keyboard`);
  await page.locator("details.decision summary").first().focus();
  await page.keyboard.press("Enter");
  assert.ok(await page.locator("details.decision").first().evaluate((d) => d.open));
  await close(load, "the keyboard");
}

step("without scripts: the figures are there, the list sorts");
{
  const load = await open("/runs/ended-1", { javaScriptEnabled: false });
  await load.page.getByText("Cost", {exact: true}).waitFor();
  await load.page.getByRole("link", { name: "All runs" }).click();
  await load.page.locator("table.list").getByRole("columnheader", { name: "progress" }).getByRole("link").click();
  await load.page.waitForURL(/sort=-clock/);
  await close(load, "without scripts");
}

step("print: A4, light");
{
  const load = await open("/runs/ended-1", { colorScheme: "dark" });
  await load.page.emulateMedia({ media: "print" });
  assert.equal(await load.page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)");
  const pdf = await load.page.pdf({ format: "A4", ...(pictures ? { path: join(pictures, "print.pdf") } : {}) });
  assert.ok(pdf.length > 10_000);
  await close(load, "print");
}

await browser.close();
console.log("all steps done");
