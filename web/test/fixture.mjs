// node test/fixture.mjs KIND FILE: writes a page as `commlens report` does (README.md), of invented numbers.
//   demo    every kind of chart, 8 ranks; its strings hold markup, quotes and long words
//   big     a timeline of 64 ranks and 100,000 calls, and a matrix of 512 ranks
//   wide    200 ranks, 300 categories, 500 iterations
//   broken  a figure whose column cannot be unpacked
// The bundle is read from COMMLENS_WEB_DIST, or dist/ beside this directory.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { figuresOf } from "./figures.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
const dist = process.env.COMMLENS_WEB_DIST ?? path.join(here, "..", "dist");
const [kind, file] = process.argv.slice(2);
const figures = figuresOf(kind);
if (!figures || !file) {
  console.error("usage: node fixture.mjs demo|big|wide|broken FILE");
  process.exit(2);
}

const escaped = (text) =>
  String(text).replace(
    /[&<>"']/g,
    (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[c],
  );

function table({ title, columns }) {
  const shown = Math.min(columns[0].cells.length, 1000);
  const head = columns.map(
    (c) => `<th scope="col"${c.dictionary ? "" : ' class="number"'}>${escaped(c.title)}</th>`,
  );
  const rows = Array.from({ length: shown }, (_, row) => {
    const cells = columns.map((c, at) => {
      const text = escaped(c.dictionary ? c.dictionary[c.cells[row]] : c.cells[row].toLocaleString("en-US"));
      return at === 0
        ? `<th scope="row">${text}</th>`
        : `<td${c.dictionary ? "" : ' class="number"'}>${text}</td>`;
    });
    return `<tr>${cells.join("")}</tr>`;
  });
  return `<div class="scroll" role="region" tabindex="0" aria-label="${escaped(title)}, table"><table>
<caption>${escaped(title)}</caption><thead><tr>${head.join("")}</tr></thead><tbody>
${rows.join("\n")}</tbody></table></div>`;
}

const figureHtml = ([id, figure]) => `<h3 id="${id}">${escaped(figure.title)}</h3>
<figure class="figure" data-figure="${id}"><figcaption>${escaped(figure.caption)}</figcaption>
<div class="chart" role="img" aria-label="${escaped(figure.title)}: chart of the table below"></div>
<details class="table"><summary>Table</summary>${table(figure)}</details></figure>`;

const stored = Object.fromEntries(
  Object.entries(figures).map(([id, figure]) => {
    const columns = figure.columns.map(({ cells, ...column }) => column);
    return [id, { ...figure, columns }];
  }),
);
const data = JSON.stringify({ schema: "commlens.report/1", title: kind, figures: stored }).replaceAll(
  "<",
  "\\u003c",
);
const policy =
  "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'";
const page = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<title>${escaped(kind)}</title><style>${readFileSync(path.join(dist, "report.css"), "utf8")}</style></head>
<body><a class="skip" href="#main">Skip to the report</a>
<header><h1>runs/z3-64 (recorded)</h1><p class="subtitle">invented numbers, ${escaped(kind)}</p></header>
<nav class="toc" aria-label="Contents"><ul><li><a href="#charts">What is communicated</a><ul>
${Object.entries(figures)
  .map(([id, figure]) => `<li><a href="#${id}">${escaped(figure.title)}</a></li>`)
  .join("\n")}
</ul></li></ul></nav>
<main id="main"><section aria-labelledby="charts"><h2 id="charts">What is communicated</h2>
${Object.entries(figures).map(figureHtml).join("\n")}
</section></main><footer><p>Made by a script.</p></footer>
<script type="application/json" id="commlens-data">${data}</script>
<script>${readFileSync(path.join(dist, "report.js"), "utf8")}</script></body></html>
`;
mkdirSync(path.dirname(path.resolve(file)), { recursive: true });
writeFileSync(file, page);
