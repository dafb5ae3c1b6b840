// Plays an agent in a canvas. The environment and the policy are in the WebAssembly runtime; this script draws, keeps time and listens.
(async () => {
  "use strict";
  const root = document.getElementById("player");
  const text = id => document.getElementById(id).textContent;
  const data = JSON.parse(text("player-data"));
  const make = (parent, tag, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    parent?.append(made);
    return made;
  };

  // The page: picture, figures, buttons, settings.
  const canvas = make(root, "canvas", { width: 640, height: 480, tabIndex: 0 });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${data.env}, as the agent plays it`);
  const figures = make(root, "div", { className: "figures" });
  const figure = name => make(make(figures, "div", { className: name }, make(null, "span", { textContent: name })), "b", { textContent: "–" });
  const shown = { total: figure("return"), steps: figure("step"), action: figure("action"), episode: figure("episode"), rate: figure("frames/s") };
  const message = make(root, "p", { className: "message" });
  message.setAttribute("role", "status");
  const pads = make(root, "div", { className: "row pads", hidden: true });
  const keysLine = make(root, "p", { className: "keys", hidden: true });
  const buttons = make(root, "div", { className: "row" });
  const button = (label, act, className = "") => {
    const made = make(buttons, "button", { type: "button", textContent: label, className });
    made.addEventListener("click", act);
    return made;
  };
  const playButton = button("Pause", () => pause(!isPaused), "main");
  button("Step", () => { pause(true); wanted = true; });
  button("Restart", () => begin(episode));
  button("Next episode", () => begin(episode + 1));
  const settings = make(root, "div", { className: "row settings" });
  const setting = (label, tag, properties) => {
    const input = make(null, tag, properties);
    make(settings, "label", {}, ...(properties.type === "checkbox" ? [input, label] : [label, input]));
    return input;
  };
  const speed = setting("Speed", "select", { name: "speed" });
  for (const [value, label] of [[0.25, "¼×"], [0.5, "½×"], [1, "1×"], [2, "2×"], [4, "4×"], [16, "16×"], [Infinity, "max"]]) {
    make(speed, "option", { value, textContent: label, selected: value === 1 });
  }
  const seedField = setting("Seed", "input", { name: "seed", inputMode: "numeric", value: data.seed, autocomplete: "off" });
  const own = setting("You play", "input", { type: "checkbox", name: "own" });
  own.closest("label").hidden = !data.keys;
  const sampled = setting("Sample actions", "input", { type: "checkbox", name: "sampled", title: "Draw actions from the policy, as in training" });

  // What plays: set once the runtime is there.
  let engine = null, episode = 0, seed = BigInt(data.seed), status = 0, isPaused = false, wanted = false, endedAt = 0;
  const keys = new Map(data.keys ?? []);
  const held = new Set();
  let pressed = null;
  const say = (words, isError = false) => {
    message.textContent = words;
    message.classList.toggle("error", isError);
  };
  const fail = error => {
    console.error(error);
    say(error.message ?? String(error), true);
    engine = null;
  };
  const output = () => engine.memory.buffer.slice(engine.output(), engine.output() + engine.output_len());
  const checked = code => {
    if (code < 0) throw new Error(new TextDecoder().decode(output()));
    return code;
  };
  const words = value => [Number(value & 0xffffffffn) | 0, Number(value >> 32n) | 0];

  const load = async () => {
    const bytes = id => {
      const letters = atob(text(id)), made = new Uint8Array(letters.length);
      for (let i = 0; i < letters.length; i++) made[i] = letters.charCodeAt(i);
      return made;
    };
    const { instance } = await WebAssembly.instantiate(unpack(bytes("player-runtime")), {});
    engine = instance.exports;
    const bundle = new TextEncoder().encode(JSON.stringify(data.bundle)), weights = bytes("player-weights");
    const at = engine.input(bundle.length + weights.length);
    new Uint8Array(engine.memory.buffer).set(bundle, at);
    new Uint8Array(engine.memory.buffer).set(weights, at + bundle.length);
    checked(engine.load(bundle.length, ...words(seed)));
  };

  const begin = number => {
    if (!engine) return;
    try {
      episode = number >>> 0;
      engine.sample(sampled.checked);
      status = checked(engine.restart(own.checked, ...words(seed), episode));
      pressed = null;
      endedAt = 0;
      say(isWaiting() ? "Press a key, or a button below, to begin." : "");
      draw();
    } catch (error) {
      fail(error);
    }
  };
  const isWaiting = () => own.checked && engine.steps() === 0;
  const pause = is => {
    isPaused = is;
    playButton.textContent = is ? "Play" : "Pause";
  };

  // The reader's action: of the last key that is down, or of none.
  const ownAction = () => {
    const legal = action => action !== null && action !== undefined && (!data.isDiscrete || engine.is_legal(action));
    const down = [...held].pop();
    const chosen = [pressed, down === undefined ? null : down, isWaiting() ? null : data.idle].find(legal);
    pressed = null;
    return chosen ?? null;
  };

  // One step, or many of the agent's. Returns whether the state changed.
  const step = count => {
    if (status !== 0) return false;
    let action = NaN;
    if (own.checked) {
      const chosen = ownAction();
      if (chosen === null) return false;
      if (isWaiting()) say("");
      action = chosen;
    }
    status = checked(engine.step(action, own.checked ? 1 : count));
    return true;
  };

  // The picture.
  const isDark = matchMedia("(prefers-color-scheme: dark)");
  const colours = () => (isDark.matches && !("light" in root.dataset) ? data.colours.dark : data.colours.light);
  const fit = (low, high) => {
    const size = [high[0] - low[0], high[1] - low[1]];
    const ratio = size[0] > 1e-6 && size[1] > 1e-6 ? size[0] / size[1] : 1;
    const across = Math.min(root.clientWidth || 640, 860) - 2, down = Math.max(220, Math.min(innerHeight * 0.56, 600));
    const width = Math.min(across, down * ratio), height = width / ratio;
    const scale = Math.min(devicePixelRatio || 1, 3);
    const pixels = [Math.round(width * scale), Math.max(2, Math.round(height * scale))];
    if (canvas.width !== pixels[0] || canvas.height !== pixels[1]) {
      [canvas.width, canvas.height] = pixels;
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
  };
  const luminance = hex => {
    const [r, g, b] = [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
    return 0.299 * r + 0.587 * g + 0.114 * b;
  };
  // A world without a picture: the fields of its state.
  const write = () => {
    engine.words();
    const bytes = new DataView(output()), pen = canvas.getContext("2d"), { background, text: ink } = colours();
    fit([0, 0], [4, 3]);
    pen.fillStyle = background;
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.fillStyle = ink;
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    const row = canvas.height / (data.leaves.length + 1);
    pen.font = `${Math.min(0.7 * row, canvas.height / 16)}px ui-monospace, monospace`;
    data.leaves.forEach(({ name, kind }, k) => {
      const value = kind === "float" ? plain(bytes.getFloat32(4 * k, true)) : kind === "int" ? bytes.getInt32(4 * k, true) : bytes.getUint32(4 * k, true);
      pen.fillText(`${name} = ${value}`, canvas.width / 16, (k + 1) * row);
    });
    show();
  };
  const draw = () => {
    engine.draw();
    const numbers = new Float32Array(output());
    if (numbers.length === 4) return write();
    const [x0, y0, x1, y1] = numbers;
    fit([x0, y0], [x1, y1]);
    const unit = Math.min(canvas.width / ((x1 - x0) || 1), canvas.height / ((y1 - y0) || 1));
    const x = value => (value - x0) * unit, y = value => canvas.height - (value - y0) * unit;
    const { background, text: ink, tones } = colours();
    const tone = value => tones[value >> 6][value & 63] ?? tones[0][4];
    const pen = canvas.getContext("2d");
    pen.fillStyle = background;
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.lineWidth = Math.max(2, canvas.width / 180);
    pen.lineCap = pen.lineJoin = "round";
    const filled = [];
    for (let i = 4; i < numbers.length;) {
      const [kind, colour, count] = [numbers[i], tone(numbers[i + 1]), numbers[i + 2]];
      const of = numbers.subarray(i + 3, i + 3 + count);
      i += 3 + count;
      pen.fillStyle = pen.strokeStyle = colour;
      pen.beginPath();
      if (kind < 2) {
        let [left, right, bottom, top] = [Infinity, -Infinity, Infinity, -Infinity];
        for (let k = 0; k < count; k += 2) {
          pen.lineTo(x(of[k]), y(of[k + 1]));
          [left, right] = [Math.min(left, of[k]), Math.max(right, of[k])];
          [bottom, top] = [Math.min(bottom, of[k + 1]), Math.max(top, of[k + 1])];
        }
        if (kind === 1) {
          pen.fill("evenodd");
          filled.push([left, bottom, right, top, colour]);
        } else {
          pen.stroke();
        }
      } else if (kind === 2) {
        const radius = Math.abs(of[2]);
        pen.arc(x(of[0]), y(of[1]), Math.max(radius * unit, 1.5), 0, 2 * Math.PI);
        pen.fill();
        filled.push([of[0] - radius, of[1] - radius, of[0] + radius, of[1] + radius, colour]);
      } else if (kind === 3) {
        const [left, bottom, right, top] = [x(of[0]), y(of[1]), x(of[2]), y(of[3])].map(Math.round);
        pen.fillRect(left, top, Math.max(right - left, 1), Math.max(bottom - top, 1));
        filled.push([...of, colour]);
      } else {
        const written = String.fromCodePoint(...of.subarray(2));
        const below = filled.findLast(([l, b, r, t]) => of[0] >= l && of[0] <= r && of[1] >= b && of[1] <= t);
        const dark = luminance(background) < 128 ? background : ink, light = dark === background ? ink : background;
        pen.fillStyle = !below ? colour : luminance(below[4]) > 128 ? dark : light;
        pen.textAlign = "center";
        pen.textBaseline = "middle";
        let size = Math.min(0.62 * unit, canvas.height / 9);
        pen.font = `500 ${size}px system-ui, sans-serif`;
        const across = pen.measureText(written).width, room = canvas.width * 0.96;
        size *= Math.min(1, room / across);
        pen.font = `500 ${Math.max(size, 9)}px system-ui, sans-serif`;
        const half = Math.min(across, room) / 2;
        pen.fillText(written, Math.min(Math.max(x(of[0]), half), canvas.width - half), y(of[1]));
      }
    }
    show();
  };

  // The figures.
  const plain = value => String(Math.round(value * 100) / 100);
  const show = () => {
    shown.total.textContent = plain(engine.episodic_return());
    shown.steps.textContent = engine.steps();
    shown.episode.textContent = episode + 1;
    if (engine.steps() === 0) {
      shown.action.textContent = "–";
      return;
    }
    engine.action();
    const action = [...new Float32Array(output())];
    const name = data.isDiscrete && action.length === 1 ? data.actionNames[action[0]] : undefined;
    const all = data.isDiscrete ? action.join(" ") : action.map(value => value.toFixed(2)).join(" ");
    shown.action.textContent = name ?? all;
    shown.action.title = name ?? all;
  };

  // The reader's keys.
  const label = key => ({ ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓" })[key] ?? key;
  const listen = () => {
    const byAction = new Map();
    for (const [key, action] of keys) if (!byAction.has(action)) byAction.set(action, key);
    for (const [action, key] of byAction) {
      const name = data.isDiscrete ? data.actionNames[action] ?? `action ${action}` : plain(action);
      make(keysLine, "span", {}, make(null, "kbd", { textContent: label(key) }), ` ${name}`);
      keysLine.append(" ");
      const pad = make(pads, "button", { type: "button", textContent: name });
      pad.addEventListener("pointerdown", event => { event.preventDefault(); press(action); });
      for (const end of ["pointerup", "pointerleave", "pointercancel"]) pad.addEventListener(end, () => held.delete(action));
      pad.addEventListener("keydown", event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pressed = action; } });
    }
    const isTyping = event => ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName) && event.target.type !== "checkbox";
    const action = event => keys.get(event.key.length === 1 ? event.key.toLowerCase() : event.key);
    addEventListener("keydown", event => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
      if (own.checked && action(event) !== undefined) {
        event.preventDefault();
        if (!event.repeat) press(action(event));
      } else if (event.key === " " && !["BUTTON", "INPUT"].includes(event.target.tagName)) {
        event.preventDefault();
        pause(!isPaused);
      } else if (event.key === "n" && event.target.tagName !== "INPUT") {
        begin(episode + 1);
      }
    });
    addEventListener("keyup", event => held.delete(action(event)));
    addEventListener("blur", () => held.clear());
  };
  const press = action => {
    pressed = action;
    held.delete(action);
    held.add(action);
    if (isPaused) pause(false);
  };

  seedField.addEventListener("change", () => {
    const given = seedField.value.trim();
    const isSeed = /^\d+$/.test(given) && BigInt(given) < 1n << 64n;
    seedField.setAttribute("aria-invalid", String(!isSeed));
    if (!isSeed) return say("A seed is a whole number from 0 to 18446744073709551615.");
    seed = BigInt(given);
    begin(0);
  });
  sampled.addEventListener("change", () => begin(episode));
  own.addEventListener("change", () => {
    keysLine.hidden = pads.hidden = !own.checked;
    canvas.setAttribute("aria-label", `${data.env}, as ${own.checked ? "you play" : "the agent plays"} it`);
    held.clear();
    if (own.checked) canvas.focus({ preventScroll: true });
    pause(false);
    begin(episode);
  });
  const redraw = () => engine && draw();
  isDark.addEventListener("change", redraw);
  addEventListener("resize", redraw);

  // The clock: as many steps as the time since the last frame has, and one picture.
  let last = performance.now(), due = 0, counted = last, frames = 0;
  const frame = now => {
    frames++;
    if (now - counted >= 1000) {
      shown.rate.textContent = Math.round(frames * 1000 / (now - counted));
      [counted, frames] = [now, 0];
    }
    const elapsed = Math.min(now - last, 250) / 1000;
    last = now;
    if (engine) {
      try {
        if (advance(elapsed, now)) draw();
      } catch (error) {
        fail(error);
      }
    }
    requestAnimationFrame(frame);
  };
  const advance = (elapsed, now) => {
    if (status !== 0) return rest(now);
    if (isPaused) {
      const isOne = wanted;
      wanted = false;
      return isOne && step(1);
    }
    const factor = own.checked ? Math.min(Number(speed.value), 16) : Number(speed.value);
    due += elapsed * data.fps * factor;
    const most = Math.floor(due);
    due = factor === Infinity ? 0 : due - most;
    // Short of a sixtieth of a second, so that the page stays at its rate; what does not fit in it is dropped.
    const until = performance.now() + 10;
    let done = 0, count = 1;
    while (done < most && status === 0 && (done === 0 || performance.now() < until)) {
      step(Math.min(count, most - done));
      done += count;
      count = Math.min(count * 2, 64);
    }
    return done > 0;
  };
  // After an episode, its last state stays for a second.
  const rest = now => {
    if (!endedAt) {
      endedAt = now;
      say(`Episode ${episode + 1} has ended after ${engine.steps()} steps: ${status === 1 ? "terminated" : "truncated"}, return ${plain(engine.episodic_return())}.`);
      return true;
    }
    wanted = false;
    if (!isPaused && now - endedAt > (Number(speed.value) === Infinity ? 300 : 1500)) begin(episode + 1);
    return false;
  };

  // For the console and for tests: an episode's return, length and the hash of all its states.
  globalThis.operantPlayer = {
    outcome: (number, given = data.seed, isSampled = false) => {
      engine.sample(isSampled);
      checked(engine.restart(false, ...words(BigInt(given)), number));
      checked(engine.finish(1 << 30));
      const trace = new BigUint64Array(output())[0];
      const found = { return: engine.episodic_return(), length: engine.steps(), trace: String(trace) };
      begin(episode);
      return found;
    },
  };
  try {
    await load();
  } catch (error) {
    return fail(error instanceof WebAssembly.CompileError ? new Error("This browser is too old for the page, which needs WebAssembly with SIMD (2023).") : error);
  }
  listen();
  begin(0);
  requestAnimationFrame(frame);
  root.dataset.ready = "";
})();
