/** The buttons above a chart. */
import { button, element } from "./dom";
import type { Choice, Switch } from "./drawer";

/** Calls `pick` with the chosen value. */
export function choiceControl(choice: Choice, pick: (value: string) => void): HTMLElement {
  return choice.form === "buttons" ? buttonRow(choice, pick) : listControl(choice, pick);
}

function buttonRow(choice: Choice, pick: (value: string) => void): HTMLElement {
  const group = element("div", { class: "group", role: "group", "aria-label": choice.label });
  const buttons = choice.options.map(({ value, label }) =>
    button(
      label,
      { "aria-pressed": String(value === choice.initial), "data-choice": `${choice.id}:${value}` },
      () => {
        for (const each of buttons)
          each.setAttribute(
            "aria-pressed",
            String(each === buttons[choice.options.findIndex((o) => o.value === value)]),
          );
        pick(value);
      },
    ),
  );
  group.append(...buttons);
  return choice.id === "measure"
    ? group
    : element("div", { class: "labelled" }, element("span", {}, choice.label), group);
}

function listControl(choice: Choice, pick: (value: string) => void): HTMLElement {
  const list = element("select", { "data-choice": choice.id, "aria-label": choice.label });
  for (const { value, label } of choice.options) list.append(element("option", { value }, label));
  list.value = choice.initial;
  list.addEventListener("change", () => pick(list.value));
  const step = (by: number) => () => {
    const next = list.selectedIndex + by;
    if (next < 0 || next >= list.options.length) return;
    list.selectedIndex = next;
    pick(list.value);
  };
  const steps =
    choice.form === "steps"
      ? [
          button("‹", { "aria-label": `${choice.label} before` }, step(-1)),
          list,
          button("›", { "aria-label": `${choice.label} after` }, step(1)),
        ]
      : [list];
  return element(
    "div",
    { class: "labelled" },
    element("span", {}, choice.label),
    element("div", { class: "group" }, ...steps),
  );
}

export function switchControl(item: Switch, turn: (on: boolean) => void): HTMLElement {
  const made = button(
    item.label,
    { "aria-pressed": String(item.initial), "data-switch": item.id, class: "switch" },
    () => {
      const on = made.getAttribute("aria-pressed") !== "true";
      made.setAttribute("aria-pressed", String(on));
      turn(on);
    },
  );
  return made;
}
