/** One figure of the page: its chart, the buttons above it, and what the pointer and keys do. */
import { choiceControl, switchControl } from "./controls";
import { button, element, swatch } from "./dom";
import { type Drawer, initialChoices, type Scene } from "./drawer";
import { type Chart, init } from "./engine";
import { light, type Palette } from "./palette";
import { savePng, saveSvg, svgElement } from "./picture";
import type { Figure } from "./report_data";
import { hideTip, showTip } from "./tip_box";
import { isWhole, moved, zoomed } from "./zoom";

const printWidth = 680;

/** The first and last place that is inside; found by asking, since a grid's edges depend on its labels. */
function edges(isInside: (at: number) => boolean, limit: number): [number, number] {
  let [first, last] = [0, limit];
  while (first < limit && !isInside(first)) first++;
  while (last > first && !isInside(last)) last--;
  return [first, Math.max(first + 1, last)];
}

export class FigureView {
  private readonly place: HTMLElement;
  private readonly legendPlace = element("ul", { class: "legend" });
  private readonly note = element("p", { class: "note" });
  private readonly resets: HTMLButtonElement[] = [];
  private readonly made: HTMLElement[] = [];
  private readonly stop = new AbortController();
  private chart: Chart | null = null;
  private readonly scene: Scene;

  constructor(
    private readonly root: HTMLElement,
    private figure: Figure,
    private drawer: Drawer,
    palette: Palette,
  ) {
    this.place = root.querySelector<HTMLElement>(".chart")!;
    const chosen = initialChoices(drawer);
    this.scene = { palette, width: 0, height: 0, chosen, hidden: new Set(), x: [0, 1], y: [0, 1] };
    root.classList.add("drawn");
    const tools = this.tools();
    this.place.before(tools, this.legendPlace);
    this.made.push(tools, this.legendPlace, this.note);
    this.measure();
    this.fillLegend();
    if (drawer.zoom !== "none") this.addHint();
    if (drawer.note) this.place.after(this.note);
  }

  /** What is chosen, by id. */
  get chosen(): Map<string, string> {
    return this.scene.chosen;
  }

  /** Takes everything it made out of the page. */
  remove(): void {
    this.stop.abort();
    this.chart?.dispose();
    this.chart = null;
    this.afterPrint();
    hideTip();
    for (const each of this.made) each.remove();
    this.place.removeAttribute("tabindex");
    this.root.classList.remove("drawn");
    delete this.root.dataset["chart"];
  }

  /** Draws when the figure comes near the window; a page of many charts opens as fast as its first ones. */
  drawWhenNear(): void {
    const watch = new IntersectionObserver(
      (entries) => {
        if (!entries.some((entry) => entry.isIntersecting)) return;
        watch.disconnect();
        this.draw();
      },
      { rootMargin: "600px" },
    );
    const resize = new ResizeObserver(() => this.resized());
    watch.observe(this.place);
    resize.observe(this.root);
    this.stop.signal.addEventListener("abort", () => {
      watch.disconnect();
      resize.disconnect();
    });
  }

  /** Shows newer values of the same figure; what the reader chose stays chosen. */
  replace(figure: Figure, drawer: Drawer): void {
    this.figure = figure;
    this.drawer = drawer;
    this.fillLegend();
    if (this.chart) this.draw();
  }

  setPalette(palette: Palette): void {
    this.scene.palette = palette;
    this.fillLegend();
    if (this.chart) this.draw();
  }

  /** Puts a drawing in the place of the canvas, light and as wide as a page. */
  beforePrint(): void {
    this.afterPrint();
    const scene = { ...this.scene, palette: light, width: printWidth };
    scene.height = this.drawer.height(scene);
    const drawing = svgElement(this.drawer, scene, this.figure.id);
    drawing.setAttribute("class", "for-print");
    this.place.after(drawing);
  }

  afterPrint(): void {
    for (const drawing of this.root.querySelectorAll(".for-print")) drawing.remove();
  }

  private measure(): boolean {
    const width = Math.max(200, Math.floor(this.place.clientWidth));
    const before = `${this.scene.width} ${this.scene.height}`;
    this.scene.width = width;
    this.scene.height = Math.round(this.drawer.height(this.scene));
    this.place.style.height = `${this.scene.height}px`;
    return before !== `${width} ${this.scene.height}`;
  }

  private resized(): void {
    if (this.measure() && this.chart) this.draw();
  }

  private draw(): void {
    this.measure();
    const { width, height } = this.scene;
    if (!this.chart) {
      this.chart = init(this.place, null, { renderer: "canvas", width, height });
      this.listen(this.chart);
    } else if (this.chart.getWidth() !== width || this.chart.getHeight() !== height) {
      this.chart.resize({ width, height });
    }
    this.chart.setOption(this.drawer.option(this.scene), { notMerge: true });
    const whole = isWhole(this.scene.x) && isWhole(this.scene.y);
    for (const each of this.resets) each.disabled = whole;
    this.note.textContent = this.drawer.note?.(this.scene) ?? "";
    this.note.hidden = this.note.textContent === "";
    this.root.dataset["chart"] = "drawn";
  }

  private changed(): void {
    hideTip();
    this.fillLegend();
    if (this.chart) this.draw();
  }

  private tools(): HTMLElement {
    const { drawer, scene } = this; // its choices; what is saved is that of later
    const tools = element("div", { class: "tools" });
    for (const choice of drawer.choices) {
      tools.append(
        choiceControl(choice, (value) => {
          scene.chosen.set(choice.id, value);
          if (choice.form === "steps") scene.x = [0, 1];
          this.changed();
        }),
      );
    }
    for (const item of drawer.switches) {
      tools.append(
        switchControl(item, (on) => {
          scene.chosen.set(item.id, on ? "on" : "off");
          this.changed();
        }),
      );
    }
    tools.append(element("span", { class: "space" }));
    if (drawer.zoom !== "none") tools.append(this.zoomButtons());
    const saved = element("div", { class: "group", role: "group", "aria-label": "Save this chart" });
    const name = this.figure.id;
    saved.append(
      button("SVG", { title: "Save as SVG", "data-save": "svg" }, () =>
        saveSvg(this.drawer, this.forFile(), this.figure.title, name),
      ),
      button(
        "PNG",
        { title: "Save as PNG", "data-save": "png" },
        () => void savePng(this.drawer, this.forFile(), this.figure.title, name),
      ),
    );
    tools.append(saved);
    return tools;
  }

  /** As on the page, but at least as wide as a figure in a paper wants it. */
  private forFile(): Scene {
    const scene = { ...this.scene, width: Math.max(720, this.scene.width) };
    scene.height = this.drawer.height(scene);
    return scene;
  }

  private zoomButtons(): HTMLElement {
    const group = element("div", { class: "group", role: "group", "aria-label": "Zoom" });
    const reset = button("All", { title: "Show all (0)", "data-zoom": "all" }, () => this.zoom(0));
    this.resets.push(reset);
    reset.disabled = true;
    group.append(
      button("◂", { title: "Move left (arrow key)", "aria-label": "Move left", "data-zoom": "left" }, () =>
        this.move(-0.25, 0),
      ),
      button("−", { title: "Zoom out (-)", "aria-label": "Zoom out", "data-zoom": "out" }, () =>
        this.zoom(2),
      ),
      button("+", { title: "Zoom in (+)", "aria-label": "Zoom in", "data-zoom": "in" }, () => this.zoom(0.5)),
      button("▸", { title: "Move right (arrow key)", "aria-label": "Move right", "data-zoom": "right" }, () =>
        this.move(0.25, 0),
      ),
      reset,
    );
    return group;
  }

  private addHint(): void {
    const id = `hint-${this.figure.id}`;
    this.place.setAttribute("tabindex", "0");
    this.place.setAttribute("aria-describedby", id);
    this.place.addEventListener("keydown", (event) => this.onKey(event), { signal: this.stop.signal });
    const hint = element(
      "p",
      { class: "hint", id },
      "Ctrl + wheel zooms, dragging moves; with the chart in focus: + − 0 and the arrow keys.",
    );
    this.place.after(hint);
    this.made.push(hint);
  }

  private zoom(factor: number, shareX = 0.5, shareY = 0.5): void {
    const { scene } = this;
    scene.x = factor === 0 ? [0, 1] : zoomed(scene.x, factor, shareX);
    if (this.drawer.zoom === "xy") scene.y = factor === 0 ? [0, 1] : zoomed(scene.y, factor, shareY);
    hideTip();
    if (this.chart) this.draw();
  }

  private move(byX: number, byY: number): void {
    this.scene.x = moved(this.scene.x, byX);
    if (this.drawer.zoom === "xy") this.scene.y = moved(this.scene.y, byY);
    hideTip();
    if (this.chart) this.draw();
  }

  private onKey(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const both = this.drawer.zoom === "xy";
    const acts: Record<string, () => void> = {
      "+": () => this.zoom(0.5),
      "=": () => this.zoom(0.5),
      "-": () => this.zoom(2),
      "0": () => this.zoom(0),
      ArrowLeft: () => this.move(-0.1, 0),
      ArrowRight: () => this.move(0.1, 0),
      ...(both ? { ArrowUp: () => this.move(0, -0.1), ArrowDown: () => this.move(0, 0.1) } : {}),
    };
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  private fillLegend(): void {
    const { scene } = this;
    const items = this.drawer.legend(scene).map(({ name, colour }) => {
      const shown = !scene.hidden.has(name);
      const item = button("", { "aria-pressed": String(shown), title: shown ? "Hide" : "Show" }, () => {
        if (!scene.hidden.delete(name)) scene.hidden.add(name);
        const at = [...this.legendPlace.querySelectorAll("button")].indexOf(item);
        this.changed();
        this.legendPlace.querySelectorAll("button")[at]?.focus();
      });
      item.append(swatch(colour), element("span", {}, name));
      return element("li", {}, item);
    });
    const ramp = this.drawer.ramp?.(scene);
    if (ramp) {
      const strip = element("span", { class: "ramp", "aria-hidden": "true" });
      strip.style.background = `linear-gradient(90deg, ${ramp.colours.join(", ")})`;
      items.push(element("li", { class: "ramp-entry" }, ramp.least, strip, ramp.most));
    }
    this.legendPlace.replaceChildren(...items);
    this.legendPlace.hidden = items.length === 0;
  }

  private listen(chart: Chart): void {
    const { signal } = this.stop;
    this.place.addEventListener("pointermove", (event) => this.onMove(chart, event), { signal });
    this.place.addEventListener("pointerdown", (event) => this.onDown(chart, event), { signal });
    this.place.addEventListener("pointerleave", hideTip, { signal });
    this.place.addEventListener("wheel", (event) => this.onWheel(chart, event), { passive: false, signal });
    this.place.addEventListener("dblclick", () => this.zoom(0), { signal });
  }

  private pointOf(event: MouseEvent): [number, number] {
    const box = this.place.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  private onMove(chart: Chart, event: PointerEvent): void {
    const point = this.pointOf(event);
    const axes = { xAxisIndex: 0, yAxisIndex: 0 };
    const tip =
      chart.containPixel("grid", point) && event.buttons === 0 ? this.tipAt(chart, axes, point) : null;
    if (tip) showTip(tip, event.pageX, event.pageY);
    else hideTip();
  }

  private tipAt(chart: Chart, axes: object, [x, y]: [number, number]) {
    const at = chart.convertFromPixel(axes, [x, y]) as [number, number];
    const next = chart.convertFromPixel(axes, [x + 1, y + 1]) as [number, number];
    return this.drawer.tip(this.scene, at, [Math.abs(next[0] - at[0]), Math.abs(next[1] - at[1])]);
  }

  /** Where a point lies in the grid, as shares of its sides, and their lengths. */
  private shareAt(
    chart: Chart,
    [x, y]: [number, number],
  ): { share: [number, number]; size: [number, number] } {
    const [left, right] = edges((at) => chart.containPixel("grid", [at, y]), this.scene.width);
    const [top, bottom] = edges((at) => chart.containPixel("grid", [x, at]), this.scene.height);
    return {
      share: [(x - left) / (right - left), (y - top) / (bottom - top)],
      size: [right - left, bottom - top],
    };
  }

  private onWheel(chart: Chart, event: WheelEvent): void {
    const point = this.pointOf(event);
    if (
      this.drawer.zoom === "none" ||
      !(event.ctrlKey || event.metaKey) ||
      !chart.containPixel("grid", point)
    )
      return;
    event.preventDefault();
    const { share } = this.shareAt(chart, point);
    this.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) / 200), share[0], share[1]);
  }

  private onDown(chart: Chart, event: PointerEvent): void {
    let last = this.pointOf(event);
    if (this.drawer.zoom === "none" || event.button !== 0 || !chart.containPixel("grid", last)) {
      this.onMove(chart, event);
      return;
    }
    const { size } = this.shareAt(chart, last);
    const drag = (next: PointerEvent) => {
      const point = this.pointOf(next);
      const [byX, byY] = [(last[0] - point[0]) / size[0], (last[1] - point[1]) / size[1]];
      if (Math.abs(byX * size[0]) + Math.abs(byY * size[1]) < 1) return;
      last = point;
      this.move(byX, byY);
    };
    const stop = () => {
      removeEventListener("pointermove", drag);
      removeEventListener("pointerup", stop);
      removeEventListener("pointercancel", stop);
    };
    addEventListener("pointermove", drag);
    addEventListener("pointerup", stop);
    addEventListener("pointercancel", stop);
  }
}
