// A screenshot as a PNG with a palette: a third of the size, for pictures that lie in the repository.
import { deflateSync, inflateSync } from "node:zlib";

/** Of ISO 3309, bit by bit: pictures are small. */
function crc32(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return ~crc >>> 0;
}

function* chunks(png) {
  for (let at = 8; at < png.length;) {
    const length = png.readUInt32BE(at);
    yield { type: png.toString("latin1", at + 4, at + 8), data: png.subarray(at + 8, at + 8 + length) };
    at += 12 + length;
  }
}

function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const made = Buffer.alloc(body.length + 8);
  made.writeUInt32BE(data.length, 0);
  body.copy(made, 4);
  made.writeUInt32BE(crc32(body), body.length + 4);
  return made;
}

function paeth(a, b, c) {
  const [pa, pb, pc] = [Math.abs(b - c), Math.abs(a - c), Math.abs(a + b - 2 * c)];
  return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
}

/** The pixels of a PNG of 8 bits a channel, RGB or RGBA. */
function pixels(png) {
  const all = [...chunks(png)];
  const head = all.find(({ type }) => type === "IHDR").data;
  const [width, height, channels] = [head.readUInt32BE(0), head.readUInt32BE(4), head[9] === 6 ? 4 : 3];
  const packed = inflateSync(
    Buffer.concat(all.filter(({ type }) => type === "IDAT").map(({ data }) => data)),
  );
  const stride = width * channels;
  const out = Buffer.alloc(stride * height);
  for (let row = 0; row < height; row++) {
    const filter = packed[row * (stride + 1)];
    for (let at = 0; at < stride; at++) {
      const left = at >= channels ? out[row * stride + at - channels] : 0;
      const up = row > 0 ? out[(row - 1) * stride + at] : 0;
      const corner = row > 0 && at >= channels ? out[(row - 1) * stride + at - channels] : 0;
      const guess = [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter];
      out[row * stride + at] = packed[row * (stride + 1) + 1 + at] + guess;
    }
  }
  return { width, height, channels, out };
}

/** The same picture with at most 256 colours; what is closer than they tell apart becomes one. */
export function palettePng(png) {
  const { width, height, channels, out } = pixels(png);
  for (let bits = 8; ; bits--) {
    const mask = (0xff << (8 - bits)) & 0xff;
    const colours = new Map();
    const rows = Buffer.alloc((width + 1) * height);
    for (let at = 0; at < width * height && colours.size <= 256; at++) {
      const [r, g, b] = out.subarray(at * channels, at * channels + 3);
      const key = ((r & mask) << 16) | ((g & mask) << 8) | (b & mask);
      if (!colours.has(key)) colours.set(key, { index: colours.size, rgb: [r, g, b] });
      rows[Math.floor(at / width) * (width + 1) + 1 + (at % width)] = colours.get(key).index;
    }
    if (colours.size > 256) continue;
    const head = Buffer.alloc(13);
    head.writeUInt32BE(width, 0);
    head.writeUInt32BE(height, 4);
    head.set([8, 3, 0, 0, 0], 8);
    return Buffer.concat([
      png.subarray(0, 8),
      chunk("IHDR", head),
      chunk("PLTE", Buffer.from([...colours.values()].flatMap(({ rgb }) => rgb))),
      chunk("IDAT", deflateSync(rows, { level: 9 })),
      chunk("IEND", Buffer.alloc(0)),
    ]);
  }
}
