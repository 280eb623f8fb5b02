/** Tables that a click on a heading sorts: numbers from the largest, texts from A; a third click restores the order. */
import { button, element } from "./dom";

type Order = "none" | "ascending" | "descending";

/** What a cell sorts by; NaN and "" where it has nothing. */
function valueOf(cell: HTMLElement | undefined, isNumber: boolean): number | string {
  const text = cell?.textContent ?? "";
  if (!isNumber) return text === "-" ? "" : text;
  const exact = cell?.dataset["value"] ?? text.replaceAll(",", "");
  return exact === "" ? Number.NaN : Number(exact);
}

const isMissing = (value: number | string): boolean => value === "" || Number.isNaN(value);

/** What has no value comes last, in either order. */
export function compared(a: number | string, b: number | string, order: Order): number {
  if (isMissing(a) || isMissing(b)) return Number(isMissing(a)) - Number(isMissing(b));
  const difference =
    typeof a === "number" && typeof b === "number"
      ? a - b
      : String(a).localeCompare(String(b), "en", { numeric: true });
  return order === "descending" ? -difference : difference;
}

function sortable(table: HTMLTableElement): void {
  const body = table.tBodies[0];
  const headings = [...(table.tHead?.rows[0]?.cells ?? [])];
  if (!body || body.rows.length < 3) return;
  const rows = [...body.rows];
  const sort = (at: number, order: Order) => {
    for (const [index, heading] of headings.entries()) {
      if (index === at && order !== "none") heading.setAttribute("aria-sort", order);
      else heading.removeAttribute("aria-sort");
    }
    const isNumber = headings[at]!.classList.contains("number");
    const keyed = rows.map((row) => ({ row, value: valueOf(row.cells[at], isNumber) }));
    if (order !== "none") keyed.sort((a, b) => compared(a.value, b.value, order));
    body.append(...keyed.map(({ row }) => row));
  };
  for (const [at, heading] of headings.entries()) {
    const first: Order = heading.classList.contains("number") ? "descending" : "ascending";
    const second: Order = first === "descending" ? "ascending" : "descending";
    const label = heading.textContent ?? "";
    const next = () => {
      const order = heading.getAttribute("aria-sort");
      sort(at, order === first ? second : order === second ? "none" : first);
    };
    const sorter = button("", { class: "sort", title: "Sort by this column" }, next);
    sorter.append(element("span", {}, label));
    heading.replaceChildren(sorter);
  }
}

export function sortableTables(): void {
  for (const table of document.querySelectorAll<HTMLTableElement>("main table:not(.fixed-order)"))
    sortable(table);
}
