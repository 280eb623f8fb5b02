/** How wide texts are where there is no canvas to ask. */

// Hundredths of the font's size, from " " to "~", of DejaVu Sans: the widest of the fonts that charts are seen in, so that
// nothing is cut in any of them. Measured with a canvas.
const widths = [
  32, 40, 46, 84, 64, 95, 78, 27, 39, 39, 50, 84, 32, 36, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 34,
  34, 84, 84, 84, 53, 100, 68, 69, 70, 77, 63, 58, 77, 75, 29, 29, 66, 56, 86, 75, 79, 60, 79, 69, 63, 61, 73,
  68, 99, 69, 61, 69, 39, 34, 39, 84, 50, 50, 61, 63, 55, 63, 62, 35, 63, 63, 28, 28, 58, 28, 97, 63, 61, 63,
  63, 41, 52, 39, 63, 59, 82, 59, 59, 52, 64, 34, 64, 84,
];
const firstWidth = 32;
const letter = 64;
const ideograph = 100;
const firstIdeograph = 0x2e80;
const boldFactor = 1.12;
const usualSize = 12;

/** Of a text in a CSS font. */
export function textWidth(text: string, font: string): number {
  const size = Number(/([\d.]+)px/.exec(font)?.[1] ?? usualSize);
  let all = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    all += widths[code - firstWidth] ?? (code < firstIdeograph ? letter : ideograph);
  }
  return (all / 100) * size * (/\b(bold|[6-9]00)\b/.test(font) ? boldFactor : 1);
}
