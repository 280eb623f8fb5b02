/** The place of a figure in the page: the view of all its rows, or of those that the filter leaves. */
import { element } from "./dom";
import type { Drawer, DrawerMaker } from "./drawer";
import { FigureView } from "./figure_view";
import { type Filter, filtered, follows, isFilterOn } from "./filter";
import type { Palette } from "./palette";
import type { Figure } from "./report_data";
import { palette } from "./theme";

/** What the reader chose before stays chosen where it still can be. */
function keepChosen(drawer: Drawer, chosen: Map<string, string> | undefined): void {
  for (const choice of drawer.choices) {
    const before = chosen?.get(choice.id);
    if (before !== undefined && choice.options.some(({ value }) => value === before)) choice.initial = before;
  }
  for (const item of drawer.switches) {
    const before = chosen?.get(item.id);
    if (before !== undefined) item.initial = before === "on";
  }
}

export class FigurePlace {
  private view: FigureView | null = null;
  private chosen: Map<string, string> | undefined;
  private readonly words = element("p", { class: "note filtered" });

  constructor(
    private readonly place: HTMLElement,
    private readonly figure: Figure,
    private readonly make: DrawerMaker,
  ) {
    this.show(figure);
  }

  filter(filter: Filter): void {
    const followed = follows(this.figure, filter);
    const shown = filtered(this.figure, filter);
    const what = [filter.op, filter.axis].filter((name) => name !== "").join(" on ");
    this.words.remove();
    this.show(shown);
    if (!isFilterOn(filter)) return;
    this.words.textContent = !followed
      ? "all ops and axes; this chart does not tell them apart."
      : shown.rows > 0
        ? `only ${what}.`
        : `nothing of ${what} is in this chart.`;
    this.place.querySelector(".tools")?.before(this.words);
    if (!this.words.isConnected) this.place.querySelector("figcaption")?.after(this.words);
  }

  private show(figure: Figure): void {
    this.chosen = this.view?.chosen ?? this.chosen;
    this.view?.remove();
    const drawer = figure.rows > 0 ? this.make(figure) : null;
    this.view = null;
    if (!drawer) return;
    keepChosen(drawer, this.chosen);
    this.view = new FigureView(this.place, figure, drawer, palette());
    this.view.drawWhenNear();
  }

  setPalette(colours: Palette): void {
    this.view?.setPalette(colours);
  }
  beforePrint(): void {
    this.view?.beforePrint();
  }
  afterPrint(): void {
    this.view?.afterPrint();
  }
}
