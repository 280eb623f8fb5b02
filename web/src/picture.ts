/** A chart as a file, or as a drawing for print. */
import { element } from "./dom";
import type { Drawer, Scene } from "./drawer";
import { init } from "./engine";
import { picture, svgText } from "./svg_text";

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
    new Blob([svgText(drawer, scene, { id: name, title, background: scene.palette.paper })], {
      type: "image/svg+xml",
    }),
    `${name}.svg`,
  );
}

export async function savePng(drawer: Drawer, scene: Scene, title: string, name: string): Promise<void> {
  const blob = await pngBlob(drawer, scene, title);
  if (blob) download(blob, `${name}.png`);
}

/** A drawing as an element, for print. */
export function svgElement(drawer: Drawer, scene: Scene, id: string): Element {
  const svg = svgText(drawer, scene, { id, title: "", background: "transparent" });
  const parsed = new DOMParser().parseFromString(svg, "image/svg+xml");
  return document.adoptNode(parsed.documentElement);
}
