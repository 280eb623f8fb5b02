/** What the page needs of ECharts besides what its drawers do: a canvas. */
import { use } from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";

use([CanvasRenderer]);
