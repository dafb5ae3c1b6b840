// Decompresses LZMA (the format of `xz --format=lzma`): half the size of what browsers decompress themselves.
const unpack = data => {
  const lc = data[0] % 9, lp = Math.floor(data[0] / 9) % 5, pb = Math.floor(data[0] / 45);
  const probabilities = count => new Uint16Array(count).fill(1024);
  // The range coder, after a header of 13 bytes and a byte that is zero.
  let at = 18, range = 0xffffffff, code = new DataView(data.buffer, data.byteOffset).getUint32(14);
  const shift = () => {
    if (range < 0x1000000) {
      range *= 256;
      code = code * 256 + data[at++];
    }
  };
  const bit = (of, index) => {
    const bound = (range >>> 11) * of[index];
    const is = code < bound ? 0 : 1;
    if (is) {
      range -= bound;
      code -= bound;
      of[index] -= of[index] >> 5;
    } else {
      range = bound;
      of[index] += (2048 - of[index]) >> 5;
    }
    shift();
    return is;
  };
  const direct = count => {
    let value = 0;
    for (; count > 0; count--) {
      range = Math.floor(range / 2);
      const is = code < range ? 0 : 1;
      if (is) code -= range;
      value = value * 2 + is;
      shift();
    }
    return value;
  };
  const tree = (of, base, bits) => {
    let node = 1;
    for (let i = 0; i < bits; i++) node = node * 2 + bit(of, base + node);
    return node - (1 << bits);
  };
  const reversed = (of, base, bits) => {
    let node = 1, value = 0;
    for (let i = 0; i < bits; i++) {
      const is = bit(of, base + node);
      node = node * 2 + is;
      value |= is << i;
    }
    return value;
  };
  const literals = probabilities(0x300 << (lc + lp)), slots = probabilities(256), special = probabilities(115), align = probabilities(16);
  const [isMatch, isLong] = [probabilities(192), probabilities(192)];
  const [isRepeat, isOther, isThird, isFourth] = [0, 0, 0, 0].map(() => probabilities(12));
  const lengths = () => ({ choice: probabilities(2), low: probabilities(128), middle: probabilities(128), high: probabilities(256) });
  const [ofMatch, ofRepeat] = [lengths(), lengths()];
  const length = (of, place) => {
    if (!bit(of.choice, 0)) return tree(of.low, place * 8, 3);
    return bit(of.choice, 1) ? 16 + tree(of.high, 0, 8) : 8 + tree(of.middle, place * 8, 3);
  };
  const distance = size => {
    const slot = tree(slots, Math.min(size, 3) * 64, 6);
    if (slot < 4) return slot;
    const bits = (slot >> 1) - 1, base = (2 | (slot & 1)) * 2 ** bits;
    return slot < 14 ? base + reversed(special, base - slot, bits) : base + direct(bits - 4) * 16 + reversed(align, 0, 4);
  };
  let out = new Uint8Array(1 << 22), count = 0, state = 0, last = [0, 0, 0, 0];
  const put = byte => {
    if (count === out.length) {
      const larger = new Uint8Array(2 * count);
      larger.set(out);
      out = larger;
    }
    out[count++] = byte;
  };
  const literal = () => {
    const before = count ? out[count - 1] : 0;
    const base = 0x300 * (((count & ((1 << lp) - 1)) << lc) + (before >> (8 - lc)));
    let symbol = 1;
    if (state >= 7) {
      for (let match = out[count - last[0] - 1]; symbol < 0x100; match <<= 1) {
        const expected = (match >> 7) & 1, is = bit(literals, base + ((1 + expected) << 8) + symbol);
        symbol = (symbol << 1) | is;
        if (is !== expected) break;
      }
    }
    while (symbol < 0x100) symbol = (symbol << 1) | bit(literals, base + symbol);
    put(symbol & 0xff);
    state = state < 4 ? 0 : state < 10 ? state - 3 : state - 6;
  };
  for (;;) {
    const place = count & ((1 << pb) - 1);
    if (!bit(isMatch, state * 16 + place)) {
      literal();
      continue;
    }
    let size;
    if (bit(isRepeat, state)) {
      let which = 0;
      if (bit(isOther, state)) {
        which = bit(isThird, state) ? 2 + bit(isFourth, state) : 1;
      } else if (!bit(isLong, state * 16 + place)) {
        state = state < 7 ? 9 : 11;
        put(out[count - last[0] - 1]);
        continue;
      }
      last.unshift(...last.splice(which, 1));
      size = length(ofRepeat, place);
      state = state < 7 ? 8 : 11;
    } else {
      size = length(ofMatch, place);
      state = state < 7 ? 7 : 10;
      const from = distance(size);
      if (from === 0xffffffff) return out.subarray(0, count);
      last = [from, last[0], last[1], last[2]];
    }
    for (let left = size + 2; left > 0; left--) put(out[count - last[0] - 1]);
  }
};
