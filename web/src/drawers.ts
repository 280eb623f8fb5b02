/** The drawer of each kind of figure. */
import { bars } from "./bars";
import type { DrawerMaker } from "./drawer";
import { histogram } from "./histogram";
import { matrix } from "./matrix";
import { lines, scatter } from "./points";
import { timeline } from "./timeline";

const makers = new Map<string, DrawerMaker>([
  ["bars", bars],
  ["histogram", histogram],
  ["matrix", matrix],
  ["timeline", timeline],
  ["lines", lines],
  ["scatter", scatter],
]);

/** undefined where a figure of this kind has its table alone. */
export const makerOf = (kind: string): DrawerMaker | undefined => makers.get(kind);
