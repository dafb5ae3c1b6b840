// Plays cases with the runtime of a page, in Node.js: `node page.mjs PLAYER CASES`. PLAYER has the runtime and the script that unpacks it; CASES has for each
// NAME.json, what a page holds, a NAME.bin with the numbers. Prints the hash of the runtime's worlds, and a line for each case: its name, length, the bits of
// its return, the hash of its states, and how many numbers its last picture has.
import { readFileSync, readdirSync } from "node:fs";

const [player, cases] = process.argv.slice(2);
const unpack = new Function(`${readFileSync(`${player}/unpack.js`, "utf8")}\nreturn unpack;`)();
const { instance } = await WebAssembly.instantiate(unpack(readFileSync(`${player}/runtime.wasm.lzma`)), {});
const engine = instance.exports;
const output = () => engine.memory.buffer.slice(engine.output(), engine.output() + engine.output_len());
const checked = (name, code) => {
  if (code < 0) throw new Error(`${name}: ${new TextDecoder().decode(output())}`);
};
engine.worlds();
console.log(new TextDecoder().decode(output()));
for (const file of readdirSync(cases).filter(name => name.endsWith(".json")).sort()) {
  const name = file.slice(0, -5);
  const { bundle, seed, number, most, sampled } = JSON.parse(readFileSync(`${cases}/${file}`, "utf8"));
  const text = new TextEncoder().encode(JSON.stringify(bundle)), numbers = readFileSync(`${cases}/${name}.bin`);
  const at = engine.input(text.length + numbers.length);
  new Uint8Array(engine.memory.buffer).set(text, at);
  new Uint8Array(engine.memory.buffer).set(numbers, at + text.length);
  const began = performance.now();
  checked(name, engine.load(text.length, seed, 0));
  engine.sample(sampled);
  checked(name, engine.restart(false, seed, 0, number));
  const loaded = performance.now();
  checked(name, engine.finish(most));
  const played = performance.now() - loaded;
  const trace = new BigUint64Array(output())[0];
  const bits = new Uint32Array(new Float32Array([engine.episodic_return()]).buffer)[0];
  engine.draw();
  const picture = new Float32Array(output()).length;
  console.log(name, engine.steps(), bits, String(trace), picture);
  if (process.env.PAGE_TIMES) console.error(name, (loaded - began).toFixed(1), "ms to load,", Math.round(1000 * engine.steps() / played), "steps/s");
}
