/** The page's filter: charts and tables that know the op and the axis of a row show those of one alone. */
import { button, element } from "./dom";
import { type Column, columnNamed, type Figure, type StoredReport, textAt } from "./report_data";

export interface Filter {
  op: string;
  axis: string;
}
type Key = keyof Filter;
const keys: Key[] = ["op", "axis"];
const everything = "";

export const isFilterOn = (filter: Filter): boolean => filter.op !== everything || filter.axis !== everything;

/** Whether a figure has what the filter asks for. */
export const follows = (figure: Figure, filter: Filter): boolean =>
  keys.some((key) => filter[key] !== everything && columnNamed(figure, key) !== undefined);

/** The rows of the figure that the filter leaves; what a rank computes stays. */
export function filtered(figure: Figure, filter: Filter): Figure {
  if (!follows(figure, filter)) return figure;
  const wanted = keys.flatMap((key) => {
    const column = filter[key] === everything ? undefined : columnNamed(figure, key);
    return column ? [{ column, value: filter[key] }] : [];
  });
  const kind = columnNamed(figure, "kind");
  const kept: number[] = [];
  for (let row = 0; row < figure.rows; row++) {
    const isCompute = kind !== undefined && textAt(kind, row) === "compute";
    if (isCompute || wanted.every(({ column, value }) => textAt(column, row) === value)) kept.push(row);
  }
  const columns: Column[] = figure.columns.map((column) => {
    const values = column.values.slice(0, kept.length);
    for (const [at, row] of kept.entries()) values[at] = column.values[row]!;
    return { ...column, values };
  });
  return { ...figure, columns, rows: kept.length };
}

/** The ops, or axes, that the figures and tables know, computing apart. */
export function namesOf(report: StoredReport | null, key: Key): string[] {
  const names = new Set<string>();
  for (const figure of Object.values(report?.figures ?? {})) {
    const column = figure.columns.find(({ name }) => name === key);
    for (const name of column?.dictionary ?? []) names.add(name);
  }
  for (const row of document.querySelectorAll<HTMLElement>(`tr[data-${key}]`))
    names.add(row.dataset[key] ?? "");
  names.delete("");
  names.delete("compute");
  return [...names].sort((a, b) => a.localeCompare(b, "en"));
}

function filterTables(filter: Filter): void {
  for (const row of document.querySelectorAll<HTMLElement>("tr[data-op], tr[data-axis]")) {
    const { op, axis } = row.dataset;
    row.hidden =
      (filter.op !== everything && op !== undefined && op !== filter.op && op !== "compute") ||
      (filter.axis !== everything && axis !== undefined && axis !== filter.axis && op !== "compute");
  }
}

function chooser(key: Key, names: string[], choose: (value: string) => void): HTMLSelectElement {
  const list = element("select", { "data-filter": key, "aria-label": `Only this ${key}` });
  list.append(element("option", { value: everything }, "all"));
  for (const name of names) list.append(element("option", { value: name }, name));
  list.addEventListener("change", () => choose(list.value));
  return list;
}

/** The filter's bar, before the figures; null where there is nothing to choose. `changed` draws the charts. */
export function filterBar(
  report: StoredReport | null,
  changed: (filter: Filter) => void,
): HTMLElement | null {
  const filter: Filter = { op: everything, axis: everything };
  const lists: HTMLSelectElement[] = [];
  const reset = button("Show all", { "data-filter": "reset" }, () => {
    for (const list of lists) list.value = everything;
    apply({ op: everything, axis: everything });
  });
  reset.hidden = true;
  const apply = (next: Filter) => {
    Object.assign(filter, next);
    reset.hidden = !isFilterOn(filter);
    filterTables(filter);
    changed(filter);
  };
  const bar = element("div", { class: "filter", role: "group", "aria-label": "Filter" });
  for (const key of keys) {
    const names = namesOf(report, key);
    if (names.length < 2) continue;
    const list = chooser(key, names, (value) => apply({ ...filter, [key]: value }));
    lists.push(list);
    bar.append(element("label", { class: "labelled" }, element("span", {}, key), list));
  }
  bar.append(reset);
  return lists.length > 0 ? bar : null;
}
