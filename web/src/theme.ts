/** Dark or light: what the reader chose on this page, else what the system prefers. */
import { button } from "./dom";
import { dark, light, type Palette } from "./palette";

const key = "commlens-theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const listeners: (() => void)[] = [];
let chosen = remembered();

function remembered(): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null; // some browsers refuse storage to files
  }
}

function remember(value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // then it holds until the page is closed
  }
}

const isDark = (): boolean => (chosen ? chosen === "dark" : system.matches);

export const palette = (): Palette => (isDark() ? dark : light);

export function onThemeChange(listener: () => void): void {
  listeners.push(listener);
}

function apply(): void {
  document.documentElement.dataset["theme"] = isDark() ? "dark" : "light";
  for (const listener of listeners) listener();
}

/** The switch for the page's head. */
export function themeSwitch(): HTMLButtonElement {
  const label = () => (isDark() ? "Light" : "Dark");
  const made = button(label(), { class: "theme", title: "Switch between dark and light" }, () => {
    chosen = isDark() ? "light" : "dark";
    remember(chosen);
    apply();
  });
  onThemeChange(() => {
    made.textContent = label();
  });
  system.addEventListener("change", apply);
  apply();
  return made;
}
