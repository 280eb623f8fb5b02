/** What of a table is outside its box: columns, said above it, and rows, said below it. */
import { element } from "./dom";

function hinted(box: HTMLElement): void {
  const table = box.querySelector("table");
  if (!table) return;
  const [beside, below] = [1, 2].map(() => element("p", { class: "more", "aria-hidden": "true" }));
  box.before(beside!);
  box.after(below!);
  const say = (hint: HTMLElement, count: number, what: string) => {
    hint.textContent = count === 0 ? "" : `${count} more ${count === 1 ? what.replace("s ", " ") : what}`;
    hint.hidden = count === 0;
  };
  const update = () => {
    const { right, bottom } = box.getBoundingClientRect();
    const cells = [...(table.tHead?.rows[0]?.cells ?? [])];
    const columns = cells.filter((cell) => cell.getBoundingClientRect().right > right + 1).length;
    const rows = [...(table.tBodies[0]?.rows ?? [])].filter(
      (row) => row.getBoundingClientRect().bottom > bottom + 1,
    ).length;
    say(beside!, columns, "columns →");
    say(below!, rows, "rows ↓");
  };
  box.addEventListener("scroll", () => requestAnimationFrame(update), { passive: true });
  new ResizeObserver(update).observe(box);
}

export function scrollHints(): void {
  for (const box of document.querySelectorAll<HTMLElement>("main .scroll")) hinted(box);
}
