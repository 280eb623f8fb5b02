/** Apache ECharts with what the drawers need and nothing else. */
import { BarChart, CustomChart, LineChart, ScatterChart } from "echarts/charts";
import { GraphicComponent, GridComponent } from "echarts/components";
import * as echarts from "echarts/core";
import { SVGRenderer } from "echarts/renderers";
import { registerRectangles } from "./rectangles";
import { textWidth } from "./text_width";

echarts.use([BarChart, CustomChart, LineChart, ScatterChart, GraphicComponent, GridComponent, SVGRenderer]);
registerRectangles();

export type Chart = echarts.ECharts;
export type Option = echarts.EChartsCoreOption;
export const init = echarts.init;
if (typeof document === "undefined")
  echarts.setPlatformAPI({
    measureText: (text: string, font?: string) => ({ width: textWidth(text, font ?? "") }),
  });

/** Pixels of a text in a CSS font. */
export const widthOf = (text: string, font: string): number => echarts.format.getTextRect(text, font).width;
