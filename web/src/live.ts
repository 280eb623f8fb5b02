/** The page of `commlens serve`: what a running job communicates, who is stuck, who is late. */
import { button, element } from "./dom";
import { makerOf } from "./drawers";
import { FigureView } from "./figure_view";
import {
  type Alert,
  type Baseline,
  type Hang,
  History,
  manyRanks,
  type NodeRow,
  nodesOf,
  opName,
  type OpRow,
  type Prediction,
  type RankRow,
  rankTimes,
  shownState,
  type State,
  worstFirst,
} from "./live_state";
import { type Connection, follow, type StreamEvent } from "./live_stream";
import type { Figure } from "./report_data";
import { onThemeChange, palette, themeSwitch } from "./theme";
import { axisText } from "./units";

const mostRows = 256;
const mostLines = 100;

type Cells = (string | number | null)[];

/** A table whose body is made anew. */
class LiveTable {
  private readonly body = element("tbody");
  private readonly more = element("p", { class: "note" });
  private readonly block: HTMLElement;

  constructor(
    parent: HTMLElement,
    title: string,
    headings: string[],
    private readonly numbersFrom: number,
  ) {
    const head = element("tr");
    for (const [at, heading] of headings.entries())
      head.append(element("th", at >= numbersFrom ? { class: "number" } : {}, heading));
    const table = element("table", {}, element("thead", {}, head), this.body);
    const box = element(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
      table,
    );
    this.more.hidden = true;
    this.block = element("div", { class: "block" }, element("h3", {}, title), box, this.more);
    this.block.hidden = true;
    parent.append(this.block);
  }

  /** Without rows there is no table. */
  show(rows: { cells: Cells; kind: string }[]): void {
    this.block.hidden = rows.length === 0;
    const shown = rows.slice(0, mostRows).map(({ cells, kind }) => {
      const row = element("tr", kind === "" ? {} : { class: kind });
      for (const [at, cell] of cells.entries())
        row.append(
          element(
            "td",
            at >= this.numbersFrom ? { class: "number" } : {},
            cell === null ? "-" : String(cell),
          ),
        );
      return row;
    });
    this.body.replaceChildren(...shown);
    this.more.textContent =
      rows.length > mostRows ? `${rows.length - mostRows} more rows: /api/v1/state` : "";
    this.more.hidden = rows.length <= mostRows;
  }
}

/** A chart whose figure is replaced. */
class LiveChart {
  private view: FigureView | null = null;
  private readonly root: HTMLElement;
  private readonly block: HTMLElement;

  constructor(parent: HTMLElement, figure: Figure) {
    this.root = element(
      "figure",
      { class: "figure", "data-figure": figure.id },
      element("figcaption", {}, figure.caption),
      element("div", { class: "chart", role: "img", "aria-label": figure.title }),
    );
    this.block = element("div", { class: "block" }, element("h3", {}, figure.title), this.root);
    parent.append(this.block);
    this.show(figure);
    onThemeChange(() => this.view?.setPalette(palette()));
  }

  show(figure: Figure): void {
    const drawer = figure.rows > 0 ? makerOf(figure.kind)!(figure) : null;
    this.block.hidden = drawer === null;
    if (!drawer) return;
    if (this.view) this.view.replace(figure, drawer);
    else {
      this.view = new FigureView(this.root, figure, drawer, palette());
      this.view.drawWhenNear();
    }
  }
}

const time = (ns: number | null): string | null => (ns === null ? null : axisText(ns, "ns"));
/** "1 rank", "3 ranks"; `shown`: the number as it is to be read. */
const howMany = (count: number, one: string, shown = String(count)): string =>
  `${shown} ${one}${count === 1 ? "" : "s"}`;
const rate = (bytes: number | null): string | null =>
  bytes === null ? null : axisText(bytes, "bytes_per_second");

function alertText(alert: Alert, hang: Hang | null): string {
  if (alert.kind !== "hang") return alert.sentence;
  const culprits = alert.culprit_ranks.slice(0, 8).join(", ") + (alert.culprit_ranks.length > 8 ? ", …" : "");
  const who = alert.culprit_ranks.length > 0 ? `: rank ${culprits}` : "";
  const doubt = hang?.may_compute ? ", unless one with requests alone computes" : "";
  return `${alert.verdict.replaceAll("_", " ")}${who}${doubt}; ${alert.waiting_ranks === 1 ? "1 rank waits" : `${alert.waiting_ranks} ranks wait`}, nothing has moved for ${axisText(alert.still_s, "s")}`;
}

function predictionText(prediction: Prediction): string {
  const { error, a: predicted, iteration_count: iterations } = prediction;
  if (error !== null) return `not compared with a prediction: ${error}`;
  if (iterations === 0) return "not compared with the prediction yet: no iteration is complete";
  const others = [
    [prediction.resized_calls_all_ranks, "of another size"],
    [prediction.calls_only_a_all_ranks, "missing"],
    [prediction.calls_only_b_all_ranks, "more than predicted"],
  ] as const;
  const counts = others.filter(([count]) => count > 0).map(([count, what]) => `, ${count} ${what}`);
  return `${predicted}: ${howMany(iterations, "iteration")} compared${prediction.iteration === null ? "" : `, the last one ${prediction.iteration}`}: ${howMany(prediction.equal_calls_all_ranks, "call")} as predicted${counts.join("")}`;
}

function baselineText({ error, a: earlier, rows, tests, iteration_count: iterations }: Baseline): string {
  if (error !== null) return `times not compared with ${earlier}: ${error}`;
  if (tests === 0) return `times not compared with ${earlier} yet: too few iterations`;
  const slower = rows.filter((row) => row.slower).length;
  return `times compared with ${earlier}: ${slower} of ${howMany(rows.length, "row")} slower in the last ${howMany(iterations, "iteration")}`;
}

const opCells = (row: OpRow): Cells => [
  opName(row),
  row.axis,
  row.group_size,
  axisText(row.calls_all_ranks, ""),
  axisText(row.message_bytes_all_ranks, "bytes"),
  rate(row.message_bytes_per_s_all_ranks),
  rate(row.bus_bandwidth_bytes_per_s),
  time(row.p50_ns),
  time(row.p99_ns),
];

const rankCells = (row: RankRow): Cells => [
  row.rank,
  shownState(row).replaceAll("_", " "),
  row.op,
  row.host === null ? null : `${row.host}:${row.pid}`,
  row.process,
  time(row.open_for_ns),
  axisText(row.calls, ""),
  rate(row.message_bytes_per_s_per_rank),
  row.late_share === null ? null : axisText(row.late_share, "share"),
];

const nodeCells = (row: NodeRow): Cells => [
  row.host,
  [...row.states].map(([state, count]) => `${count} ${state.replaceAll("_", " ")}`).join(", "),
  row.culprits.length === 0 ? null : row.culprits.join(", "),
  row.ranks,
  axisText(row.calls, ""),
  rate(row.rate),
];

export class LivePage {
  private readonly history = new History();
  private readonly prediction = element("p", { class: "note prediction" });
  private readonly baseline = element("p", { class: "note baseline" });
  private readonly alerts = element("div", { class: "verdict bad alerts", role: "alert" });
  private readonly log = element("ol", { class: "log" });
  private readonly tokenPlace = element("form", { class: "token" });
  private readonly ops: LiveTable;
  private readonly nodes: LiveTable;
  private readonly ranks: LiveTable;
  private readonly charts: { chart: LiveChart; figure: (state: State) => Figure }[] = [];
  private token = "";

  constructor(private readonly main: HTMLElement) {
    document.documentElement.classList.add("scripted", "live");
    document.querySelector("body > header")!.append(themeSwitch());
    this.alerts.hidden = true;
    this.prediction.hidden = true;
    this.baseline.hidden = true;
    main.append(this.alerts, this.prediction, this.baseline, this.tokenPlace);
    const charts = element("section");
    main.append(charts);
    this.nodes = new LiveTable(
      main,
      "Nodes",
      ["node", "its ranks are", "culprits", "ranks", "calls", "message rate"],
      3,
    );
    this.ranks = new LiveTable(
      main,
      "Ranks",
      ["rank", "state", "in call", "process", "process is", "for", "calls", "message rate", "late"],
      5,
    );
    this.ops = new LiveTable(
      main,
      "Operations",
      ["op", "axis", "ranks", "calls", "message bytes", "message rate", "bus bandwidth", "P50", "P99"],
      2,
    );
    const add = (figure: (state: State) => Figure, first: Figure) =>
      this.charts.push({ chart: new LiveChart(charts, first), figure });
    add(() => this.history.rates(), this.history.rates());
    add(() => this.history.steps(), this.history.steps());
    add(rankTimes, rankTimes({ rank_rows: [] } as unknown as State));
    main.append(element("div", { class: "block" }, element("h3", {}, "What happened"), this.log));
    this.makeTokenForm();
  }

  start(): void {
    void follow(
      "events",
      () => this.token,
      (event) => this.take(event),
      (connection) => this.tell(connection),
    );
  }

  private makeTokenForm(): void {
    const field = element("input", { type: "password", autocomplete: "off", "aria-label": "Token" });
    const use = () => {
      this.token = field.value;
    };
    this.tokenPlace.append("This server wants its token: ", field, button("Use", {}, use));
    this.tokenPlace.addEventListener("submit", (event) => {
      event.preventDefault();
      use();
    });
    this.tokenPlace.hidden = true;
  }

  private tell(connection: Connection): void {
    this.tokenPlace.hidden = connection !== "token wanted";
    if (connection === "connected") this.log.replaceChildren(); // the server tells the latest events again
    document.documentElement.dataset["connection"] = connection;
    if (connection !== "connected")
      document.querySelector("#subtitle")!.textContent =
        connection === "waiting"
          ? "the server does not answer; trying again"
          : this.token === ""
            ? "the token is missing"
            : "the token is wrong";
  }

  private take(event: StreamEvent): void {
    if (event.name === "state") this.show(JSON.parse(event.data) as State);
    else this.note(event);
  }

  private note({ name, data }: StreamEvent): void {
    const { alert, hang, rank, host, at_unix_ns } = JSON.parse(data) as {
      alert?: Alert;
      hang?: Hang;
      rank?: number;
      host?: string;
      at_unix_ns: number;
    };
    const what = alert
      ? `: ${alertText(alert, hang ?? null)}`
      : rank === undefined
        ? ""
        : ` ${rank}${host ? ` on ${host}` : ""}`;
    const at = new Date(at_unix_ns / 1e6).toLocaleTimeString();
    this.log.prepend(element("li", {}, `${at} ${name.replaceAll("_", " ")}${what}`));
    while (this.log.children.length > mostLines) this.log.lastChild!.remove();
  }

  private show(state: State): void {
    this.history.add(state, performance.now());
    document.title = `${state.alerts.length > 0 ? "! " : ""}${state.trace} · commlens`;
    document.querySelector("#job")!.textContent = state.trace;
    const step = state.step_median_s === null ? "" : `, ${axisText(state.step_median_s, "s")} each`;
    const lost = state.lost.reduce((sum, { calls_all_ranks }) => sum + calls_all_ranks, 0);
    document.querySelector("#subtitle")!.textContent = [
      state.job,
      howMany(state.rank_rows.length, "rank"),
      ...(state.iteration === null || state.iteration < 0 ? [] : [`iteration ${state.iteration}${step}`]),
      howMany(state.calls_all_ranks, "call", axisText(state.calls_all_ranks, "")),
      axisText(state.totals.message_bytes_all_ranks, "bytes"),
      ...(lost > 0 ? [`${howMany(lost, "call", axisText(lost, ""))} lost`] : []),
      ...(state.error === null ? [] : [state.error]),
    ].join(" · ");
    this.prediction.hidden = state.prediction === null;
    this.prediction.textContent = state.prediction === null ? "" : predictionText(state.prediction);
    this.baseline.hidden = state.baseline === null;
    this.baseline.textContent = state.baseline === null ? "" : baselineText(state.baseline);
    this.alerts.hidden = state.alerts.length === 0;
    this.alerts.replaceChildren(
      ...state.alerts.map((alert) => element("p", {}, alertText(alert, state.hang))),
    );
    const culprits = new Set(state.alerts.flatMap(({ culprit_ranks }) => culprit_ranks));
    const isMany = state.rank_rows.length > manyRanks;
    if (isMany) state.rank_rows = worstFirst(state.rank_rows, culprits);
    for (const { chart, figure } of this.charts) chart.show(figure(state));
    this.nodes.show(
      (isMany ? nodesOf(state.rank_rows, culprits) : []).map((row) => ({
        cells: nodeCells(row),
        kind: row.culprits.length > 0 || row.states.has("dead") ? "bad" : "",
      })),
    );
    this.ranks.show(
      state.rank_rows.map((row) => ({
        cells: rankCells(row),
        kind: row.state === "dead" || culprits.has(row.rank) ? "bad" : "",
      })),
    );
    this.ops.show(state.rows.map((row) => ({ cells: opCells(row), kind: "" })));
    document.documentElement.dataset["report"] = "ready";
    this.main.dataset["polls"] = String(Number(this.main.dataset["polls"] ?? "0") + 1);
  }
}
