/** Draws the figures of a report into its page. */
import "./canvas";
import { contents } from "./contents";
import { element } from "./dom";
import { makerOf } from "./drawers";
import { FigurePlace } from "./figure_place";
import { filterBar } from "./filter";
import { LivePage } from "./live";
import { type StoredReport, storedReport, unpacked } from "./report_data";
import { scrollHints } from "./scroll_hints";
import { sortableTables } from "./tables";
import { onThemeChange, palette, themeSwitch } from "./theme";

function figurePlaces(): Map<string, HTMLElement> {
  const places = new Map<string, HTMLElement>();
  for (const place of document.querySelectorAll<HTMLElement>("figure[data-figure]")) {
    if (place.querySelector(".chart")) places.set(place.dataset["figure"]!, place);
  }
  return places;
}

async function drawn(report: StoredReport | null): Promise<FigurePlace[]> {
  const views: FigurePlace[] = [];
  for (const [id, place] of figurePlaces()) {
    const stored = report?.figures[id];
    const make = stored && makerOf(stored.kind);
    if (!stored || !make) continue;
    try {
      const figure = await unpacked(id, stored);
      if (figure.rows > 0 && make(figure)) views.push(new FigurePlace(place, figure, make));
    } catch (error) {
      // The table is still there; a chart that is missing must say so.
      place.append(
        element("p", { class: "failed", role: "alert" }, `This chart could not be drawn: ${String(error)}`),
      );
      console.error(`figure ${id}:`, error);
    }
  }
  return views;
}

/** Before what follows the verdict and the configuration. */
function filterPlace(): Element {
  const sections = document.querySelectorAll("main > section");
  const first = document.querySelector("#configuration")?.closest("section");
  return (
    [...sections].find((section) => section !== first) ?? document.querySelector("main")!.lastElementChild!
  );
}

async function start(): Promise<void> {
  document.documentElement.classList.add("scripted");
  (document.querySelector("body > header") ?? document.body).append(themeSwitch());
  contents();
  sortableTables();
  scrollHints();
  const report = storedReport();
  const views = await drawn(report);
  const bar = filterBar(report, (filter) => {
    for (const view of views) view.filter(filter);
  });
  if (bar) filterPlace().before(bar);
  onThemeChange(() => {
    for (const view of views) view.setPalette(palette());
  });
  addEventListener("beforeprint", () => {
    for (const view of views) view.beforePrint();
  });
  addEventListener("afterprint", () => {
    for (const view of views) view.afterPrint();
  });
  document.documentElement.dataset["report"] = "ready";
}

const live = document.querySelector<HTMLElement>("main#live");
if (live) new LivePage(live).start();
else void start();
