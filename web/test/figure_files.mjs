// node test/figure_files.mjs KIND DIR: writes the figures of a fixture page (fixture.mjs) as `commlens report --data` does.
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { figuresOf } from "./figures.mjs";

const [kind, directory] = process.argv.slice(2);
mkdirSync(directory, { recursive: true });
for (const [id, figure] of Object.entries(figuresOf(kind))) {
  const columns = figure.columns.map(({ name, title, unit, cells, dictionary }) => ({
    name,
    title,
    unit,
    values: dictionary ? cells.map((code) => dictionary[code]) : cells,
  }));
  const { title, caption, options } = figure;
  const file = { schema: "commlens.figure/1", id, title, caption, kind: figure.kind, notes: [], options };
  const rows = columns[0].values.length;
  writeFileSync(path.join(directory, `${id}.json`), JSON.stringify({ ...file, rows, columns }));
}
