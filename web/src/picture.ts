/** A chart as a file, or as a drawing for print: the chart with its title and legend. */
import { font } from "./axes";
import { element } from "./dom";
import type { Drawer, Scene } from "./drawer";
import { init, type Option } from "./engine";

const padding = 16;
const pen = document.createElement("canvas").getContext("2d");

function widthOf(text: string, size: number, weight = ""): number {
  if (!pen) return text.length * size * 0.55;
  pen.font = `${weight} ${size}px ${font}`;
  return pen.measureText(text).width;
}

type Shapes = Record<string, unknown>[];

function text(
  content: string,
  x: number,
  y: number,
  colour: string,
  size: number,
  weight = "normal",
): Record<string, unknown> {
  return {
    type: "text",
    silent: true,
    x,
    y,
    style: { text: content, fill: colour, font: `${weight} ${size}px ${font}`, verticalAlign: "middle" },
  };
}

/** Title and legend; how much room they take. */
function head(drawer: Drawer, scene: Scene, title: string): { shapes: Shapes; height: number } {
  const { palette, width } = scene;
  const shapes: Shapes = [];
  let y = 0;
  if (title) {
    shapes.push(text(title, padding, padding + 8, palette.ink, 15, "600"));
    y = padding + 26;
  }
  let x = padding;
  const entries = drawer.legend(scene).filter(({ name }) => !scene.hidden.has(name));
  for (const { name, colour } of entries) {
    const room = 18 + widthOf(name, 12) + 14;
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
    shapes.push(text(name, x + 17, y + 11, palette.ink, 12));
    x += room;
  }
  if (entries.length > 0) y += 26;
  const ramp = drawer.ramp?.(scene);
  if (ramp) {
    const from = padding + widthOf(ramp.least, 12) + 8;
    const colorStops = ramp.colours.map((color, at) => ({ offset: at / (ramp.colours.length - 1), color }));
    const fill = { type: "linear", x: 0, y: 0, x2: 1, y2: 0, colorStops };
    shapes.push(text(ramp.least, padding, y + 11, palette.ink, 12));
    shapes.push({
      type: "rect",
      silent: true,
      shape: { x: from, y: y + 5, width: 120, height: 11 },
      style: { fill },
    });
    shapes.push(text(ramp.most, from + 128, y + 11, palette.ink, 12));
    y += 26;
  }
  return { shapes, height: y };
}

interface Picture {
  option: Option;
  height: number;
}

function picture(drawer: Drawer, scene: Scene, title: string): Picture {
  const { shapes, height } = head(drawer, scene, title);
  const option = drawer.option(scene) as { grid: { top: number; bottom: number; left: number } };
  const { grid } = option;
  const margin = title ? 12 : 0;
  const framed = { ...grid, top: grid.top + height, bottom: grid.bottom + margin, left: grid.left + margin };
  return { option: { ...option, grid: framed, graphic: shapes }, height: scene.height + height + margin };
}

export function svgText(drawer: Drawer, scene: Scene, title: string, background: string): string {
  const { option, height } = picture(drawer, scene, title);
  const chart = init(null, null, { renderer: "svg", ssr: true, width: scene.width, height });
  chart.setOption({ ...option, backgroundColor: background });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return svg;
}

async function pngBlob(drawer: Drawer, scene: Scene, title: string): Promise<Blob | null> {
  const { option, height } = picture(drawer, scene, title);
  const place = element("div");
  const chart = init(place, null, { renderer: "canvas", width: scene.width, height, devicePixelRatio: 2 });
  chart.setOption({ ...option, backgroundColor: scene.palette.paper });
  const canvas = chart.renderToCanvas({ pixelRatio: 2, backgroundColor: scene.palette.paper });
  const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
  chart.dispose();
  return blob;
}

function download(blob: Blob, name: string): void {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function saveSvg(drawer: Drawer, scene: Scene, title: string, name: string): void {
  download(
    new Blob([svgText(drawer, scene, title, scene.palette.paper)], { type: "image/svg+xml" }),
    `${name}.svg`,
  );
}

export async function savePng(drawer: Drawer, scene: Scene, title: string, name: string): Promise<void> {
  const blob = await pngBlob(drawer, scene, title);
  if (blob) download(blob, `${name}.png`);
}

/** A drawing as an element, for print. */
export function svgElement(drawer: Drawer, scene: Scene): Element {
  const parsed = new DOMParser().parseFromString(svgText(drawer, scene, "", "transparent"), "image/svg+xml");
  return document.adoptNode(parsed.documentElement);
}
