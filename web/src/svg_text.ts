/** A chart as the text of an SVG, with its title and legend; needs no document. */
import { font } from "./axes";
import type { Drawer, Ramp, Scene } from "./drawer";
import { init, type Option, widthOf } from "./engine";

const padding = 16;

interface TextShape extends Record<string, unknown> {
  style: Record<string, unknown>;
}
type Shapes = Record<string, unknown>[];

function text(
  content: string,
  x: number,
  y: number,
  colour: string,
  size: number,
  weight = "normal",
): TextShape {
  return {
    type: "text",
    silent: true,
    x,
    y,
    style: { text: content, fill: colour, font: `${weight} ${size}px ${font}`, verticalAlign: "middle" },
  };
}

/** Lines of a text that are no wider than `most` pixels; a word alone may be. */
function linesOf(content: string, most: number, size: number, weight = "normal"): string[] {
  const lines: string[] = [];
  for (const word of content.split(" ")) {
    const longer = lines.length > 0 ? `${lines[lines.length - 1]} ${word}` : word;
    if (lines.length > 0 && widthOf(longer, `${weight} ${size}px ${font}`) <= most)
      lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

/** Title and what is drawn, from the top of the picture; where what follows begins. */
function heading(drawer: Drawer, scene: Scene, title: string, shapes: Shapes): number {
  const { palette, width } = scene;
  const most = width - 2 * padding;
  let y = padding;
  for (const line of linesOf(title, most, 15, "600")) {
    shapes.push(text(line, padding, y + 8, palette.ink, 15, "600"));
    y += 20;
  }
  const words = [drawer.subject(scene), drawer.note?.(scene)].filter(Boolean).join("; ");
  for (const line of words === "" ? [] : linesOf(words, most, 12)) {
    shapes.push(text(line, padding, y + 9, palette.muted, 12));
    y += 17;
  }
  return y + 6;
}

function legend(drawer: Drawer, scene: Scene, from: number, shapes: Shapes): number {
  const { palette, width } = scene;
  const most = width - 2 * padding - 18;
  let [x, y] = [padding, from];
  const entries = drawer.legend(scene).filter(({ name }) => !scene.hidden.has(name));
  for (const { name, colour } of entries) {
    const wide = widthOf(name, `12px ${font}`);
    const room = 18 + Math.min(wide, most) + 14;
    if (x > padding && x + room > width - padding) {
      x = padding;
      y += 20;
    }
    shapes.push({
      type: "rect",
      silent: true,
      shape: { x, y: y + 5, width: 11, height: 11, r: 2 },
      style: { fill: colour },
    });
    const label = text(name, x + 17, y + 11, palette.ink, 12);
    if (wide > most) Object.assign(label.style, { width: most, overflow: "truncate" });
    shapes.push(label);
    x += room;
  }
  return entries.length > 0 ? y + 26 : y;
}

function rampLegend({ least, most, colours }: Ramp, scene: Scene, y: number, shapes: Shapes): number {
  const { ink } = scene.palette;
  const from = padding + widthOf(least, `12px ${font}`) + 8;
  const colorStops = colours.map((color, at) => ({ offset: at / (colours.length - 1), color }));
  const fill = { type: "linear", x: 0, y: 0, x2: 1, y2: 0, colorStops };
  shapes.push(text(least, padding, y + 11, ink, 12));
  shapes.push({
    type: "rect",
    silent: true,
    shape: { x: from, y: y + 5, width: 120, height: 11 },
    style: { fill },
  });
  shapes.push(text(most, from + 128, y + 11, ink, 12));
  return y + 26;
}

/** Title, what is drawn, and legend; how much room they take. */
function head(drawer: Drawer, scene: Scene, title: string): { shapes: Shapes; height: number } {
  const shapes: Shapes = [];
  let y = title ? heading(drawer, scene, title, shapes) : 0;
  y = legend(drawer, scene, y, shapes);
  const ramp = drawer.ramp?.(scene);
  return { shapes, height: ramp ? rampLegend(ramp, scene, y, shapes) : y };
}

export interface Picture {
  option: Option;
  height: number;
}

export function picture(drawer: Drawer, scene: Scene, title: string): Picture {
  const { shapes, height } = head(drawer, scene, title);
  const option = drawer.option(scene) as { grid: { top: number; bottom: number; left: number } };
  const { grid } = option;
  const margin = title ? 12 : 0;
  const framed = { ...grid, top: grid.top + height, bottom: grid.bottom + margin, left: grid.left + margin };
  return { option: { ...option, grid: framed, graphic: shapes }, height: scene.height + height + margin };
}

/** A chart and what stands around it; `id` makes its inner names unlike those of others in the same page. */
export interface Sheet {
  id: string;
  title: string;
  background: string;
}

/** Without what makes it react to a pointer, and with names of its own. Texts of the figure have no bare quote to match. */
function still(svg: string, id: string): string {
  const prefix = id.replace(/[^\w-]/g, "-");
  return svg
    .replace(/ (?:class|pointer-events|ecmeta_\w+)="[^"]*"/g, "")
    .replace(/<style[^>]*><!\[CDATA\[[^\]]*\]\]>\s*<\/style>\s*/, "")
    .replace(/(id="|="url\(#)zr\d+-/g, `$1${prefix}-`)
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
}

export function svgText(drawer: Drawer, scene: Scene, { id, title, background }: Sheet): string {
  const { option, height } = picture(drawer, scene, title);
  const chart = init(null, null, { renderer: "svg", ssr: true, width: scene.width, height });
  chart.setOption({ ...option, backgroundColor: background });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return still(svg, id);
}
