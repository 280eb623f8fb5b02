/** What of a table is outside its box, said below it. */
import { element } from "./dom";

const plural = (count: number, what: string): string => `${count} more ${what}${count === 1 ? "" : "s"}`;

function hinted(box: HTMLElement): void {
  const table = box.querySelector("table");
  if (!table) return;
  const hint = element("p", { class: "more", "aria-hidden": "true" });
  box.after(hint);
  const update = () => {
    const { right, bottom } = box.getBoundingClientRect();
    const cells = [...(table.tHead?.rows[0]?.cells ?? [])];
    const columns = cells.filter((cell) => cell.getBoundingClientRect().right > right + 1).length;
    const rows = [...(table.tBodies[0]?.rows ?? [])].filter(
      (row) => row.getBoundingClientRect().bottom > bottom + 1,
    ).length;
    const words = [
      columns > 0 ? `${plural(columns, "column")} →` : "",
      rows > 0 ? `${plural(rows, "row")} ↓` : "",
    ];
    hint.textContent = words.filter(Boolean).join("   ");
    hint.hidden = hint.textContent === "";
  };
  box.addEventListener("scroll", () => requestAnimationFrame(update), { passive: true });
  new ResizeObserver(update).observe(box);
}

export function scrollHints(): void {
  for (const box of document.querySelectorAll<HTMLElement>("main .scroll")) hinted(box);
}
