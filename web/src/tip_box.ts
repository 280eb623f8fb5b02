/** The box beside the pointer that says what is there. One for the page. */
import { element, swatch } from "./dom";
import type { Tip } from "./drawer";

const box = element("div", { class: "tip", role: "status" });
box.hidden = true;

export function hideTip(): void {
  box.hidden = true;
}

export function showTip(tip: Tip, pageX: number, pageY: number): void {
  if (!box.isConnected) document.body.append(box);
  const lines = tip.lines.map((line) => {
    const mark = line.colour ? [swatch(line.colour)] : [];
    return element(
      "div",
      { class: "tip-line" },
      element("span", {}, ...mark, line.label),
      element("b", {}, line.value),
    );
  });
  box.replaceChildren(element("div", { class: "tip-title" }, tip.title), ...lines);
  box.hidden = false;
  const { clientWidth } = document.documentElement;
  const left =
    pageX + 16 + box.offsetWidth > scrollX + clientWidth ? pageX - 12 - box.offsetWidth : pageX + 16;
  box.style.left = `${Math.max(scrollX + 4, Math.min(left, scrollX + clientWidth - box.offsetWidth - 4))}px`;
  const below = pageY + 16 + box.offsetHeight > scrollY + innerHeight;
  box.style.top = `${Math.max(scrollY + 4, below ? pageY - 12 - box.offsetHeight : pageY + 16)}px`;
}
