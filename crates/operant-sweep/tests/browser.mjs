// Opens a page in headless Chromium through its debugging pipe: `node browser.mjs PAGE [WIDTH HEIGHT [PNG [EXPRESSION]]]`. Prints one JSON object: messages of the
// console and errors, frames of a second, three outcomes of episodes, and, where the picture of the screen was asked for, its file. `PAGE_DARK` is a dark system.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [page, width = "1280", height = "900", picture, expression] = process.argv.slice(2);
const profile = mkdtempSync(join(tmpdir(), "operant-page-"));
const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", `--user-data-dir=${profile}`, "--remote-debugging-pipe"];
const browser = spawn(process.env.CHROMIUM ?? "chromium", [...flags, "about:blank"], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
const waiting = new Map(), problems = [];
let number = 0, session, rest = "";
const on = message => {
  const { id, method, params, result, error } = JSON.parse(message);
  if (id) {
    const { done, failed } = waiting.get(id);
    return error ? failed(new Error(error.message)) : done(result);
  }
  if (method === "Runtime.exceptionThrown") problems.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
  if (method === "Runtime.consoleAPICalled") problems.push(params.args.map(argument => argument.value).join(" "));
  if (method === "Log.entryAdded") problems.push(params.entry.text);
};
browser.stdio[4].on("data", bytes => {
  const parts = (rest + bytes).split("\0");
  rest = parts.pop();
  parts.forEach(on);
});
const send = (method, params = {}) => new Promise((done, failed) => {
  waiting.set(++number, { done, failed });
  browser.stdio[3].write(JSON.stringify({ id: number, method, params, sessionId: session }) + "\0");
});
const evaluate = async text => {
  const { result, exceptionDetails } = await send("Runtime.evaluate", { expression: text, awaitPromise: true, returnByValue: true });
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  return result.value;
};
const pause = time => new Promise(done => setTimeout(done, time));
const close = code => {
  browser.kill();
  browser.on("exit", () => {
    rmSync(profile, { recursive: true, force: true });
    process.exit(code);
  });
};
try {
  const { targetId } = await send("Target.createTarget", { url: "about:blank" });
  session = (await send("Target.attachToTarget", { targetId, flatten: true })).sessionId;
  await Promise.all(["Page.enable", "Runtime.enable", "Log.enable"].map(method => send(method)));
  const metrics = { width: Number(width), height: Number(height), deviceScaleFactor: 1, mobile: Number(width) < 600 };
  await send("Emulation.setDeviceMetricsOverride", metrics);
  const scheme = process.env.PAGE_DARK ? "dark" : "light";
  await send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
  const began = performance.now();
  await send("Page.navigate", { url: pathToFileURL(resolve(page)).href });
  const isReady = `document.querySelector("#player[data-ready], #player .error") !== null`;
  while (!(await evaluate(isReady))) {
    if (performance.now() - began > 60_000) throw new Error("the page has not begun after a minute");
    await pause(50);
  }
  const found = { ready_ms: Math.round(performance.now() - began) };
  if (expression) await evaluate(expression);
  await pause(Number(process.env.PAGE_WAIT ?? 3000));
  found.frames = await evaluate(`Number([...document.querySelectorAll("#player .figures b")].at(-1).textContent)`);
  found.steps = await evaluate(`Number(document.querySelectorAll("#player .figures b")[1].textContent)`);
  found.message = await evaluate(`document.querySelector("#player .message").textContent`);
  found.overflows = await evaluate(`document.documentElement.scrollWidth > innerWidth`);
  if (picture) {
    const { data } = await send("Page.captureScreenshot", { format: "png" });
    writeFileSync(picture, Buffer.from(data, "base64"));
    found.picture = picture;
  } else {
    found.outcomes = await evaluate(`[0, 1, 2].map(number => operantPlayer.outcome(number))`);
  }
  console.log(JSON.stringify({ ...found, problems }));
  close(0);
} catch (error) {
  console.error(error.message);
  close(1);
}
