/** The table of contents beside the page: made of the headings where the HTML has none, marked as the reader scrolls. */
import { element } from "./dom";

function made(): HTMLElement | null {
  const headings = [...document.querySelectorAll<HTMLElement>("main h2")].filter((heading) =>
    targetOf(heading),
  );
  if (headings.length < 2) return null;
  const list = element("ol");
  for (const heading of headings) {
    list.append(
      element("li", {}, element("a", { href: `#${targetOf(heading)}` }, heading.textContent ?? "")),
    );
  }
  const contents = element("nav", { class: "toc", "aria-label": "Contents" }, list);
  document.querySelector("main")?.before(contents);
  return contents;
}

const targetOf = (heading: HTMLElement): string => heading.id || (heading.closest("section")?.id ?? "");

export function contents(): void {
  const nav = document.querySelector<HTMLElement>("nav.toc") ?? made();
  if (!nav) return;
  const links = new Map<Element, HTMLAnchorElement>();
  for (const link of nav.querySelectorAll<HTMLAnchorElement>('a[href^="#"]')) {
    const target = document.getElementById(decodeURIComponent(link.hash.slice(1)));
    if (target) links.set(target, link);
  }
  const mark = () => {
    let current: HTMLAnchorElement | undefined;
    for (const [target, link] of links) {
      if (target.getBoundingClientRect().top < 140) current = link;
    }
    for (const link of links.values()) {
      if (link === current) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  addEventListener("scroll", mark, { passive: true });
  mark();
}
