/**
 * A custom series of one item that paints many rectangles: one path per colour, made anew for each window, so that a
 * chart of a hundred thousand events costs what its pixels cost.
 */
import { graphic } from "echarts/core";

/** Rectangles of one colour: x, y, width, height, x, … in pixels. */
export interface Layer {
  colour: string;
  rectangles: number[];
}

interface PathBuilder {
  rect(x: number, y: number, width: number, height: number): void;
}

export function registerRectangles(): void {
  const shape = graphic.extendShape({
    shape: { rectangles: [] as number[] },
    buildPath(builder: PathBuilder, { rectangles }: { rectangles: number[] }) {
      for (let at = 0; at < rectangles.length; at += 4) {
        builder.rect(rectangles[at]!, rectangles[at + 1]!, rectangles[at + 2]!, rectangles[at + 3]!);
      }
    },
  } as unknown as Parameters<typeof graphic.extendShape>[0]);
  graphic.registerShape("rectangles", shape);
}

/** What a painter gets to place things with. */
export interface Window {
  left: number;
  top: number;
  width: number;
  height: number;
  /** The pixel of a point of the axes; a category counts from 0, its middle. */
  pixel(x: number, y: number): [number, number];
  /** How far the middles of `count` bars are from the middle of their category. */
  barOffsets(count: number, settings: Record<string, unknown>): number[];
}

interface RenderApi {
  coord(point: [number, number]): [number, number];
  barLayout(settings: Record<string, unknown>): { offsetCenter: number }[];
}
interface RenderParams {
  coordSys: { x: number; y: number; width: number; height: number };
}

export function paintedSeries(paint: (window: Window) => Layer[]): Record<string, unknown> {
  return {
    type: "custom",
    coordinateSystem: "cartesian2d",
    data: [[0, 0]],
    encode: { x: [], y: [] },
    silent: true,
    clip: true,
    z: 3,
    animation: false,
    renderItem(params: RenderParams, api: RenderApi) {
      const area = params.coordSys;
      const layers = paint({
        left: area.x,
        top: area.y,
        width: area.width,
        height: area.height,
        pixel: (x, y) => api.coord([x, y]),
        barOffsets: (count, settings) =>
          api.barLayout({ count, ...settings }).map(({ offsetCenter }) => offsetCenter),
      });
      return {
        type: "group",
        children: layers
          .filter((layer) => layer.rectangles.length > 0)
          .map((layer) => ({
            type: "rectangles",
            shape: { rectangles: layer.rectangles },
            style: { fill: layer.colour },
            silent: true,
          })),
      };
    },
  };
}
