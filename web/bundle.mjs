// Bundles src/main.ts and src/report.css into dist/report.js and dist/report.css, and checks that both can stand inside
// a <script> and a <style> element as they are; and src/charts.ts into dist/charts.js, for Duktape.
import { readFileSync } from "node:fs";
import { build } from "esbuild";
import ts from "typescript";

const licences = `/*!
Charts of commlens (Apache-2.0). Contains Apache ECharts (Apache-2.0, https://echarts.apache.org,
Copyright 2017-2026 The Apache Software Foundation), ZRender (BSD-3-Clause, Copyright (c) 2017, Baidu Inc.) and
tslib (0BSD, Copyright (c) Microsoft Corporation).
*/`;

const shared = { bundle: true, legalComments: "none", logLevel: "warning", charset: "ascii" };
const page = { ...shared, minify: true, target: ["chrome103", "firefox113", "safari16.4"] }; // the first with DecompressionStream
await build({
  ...page,
  entryPoints: ["src/main.ts"],
  outfile: "dist/report.js",
  format: "iife",
  banner: { js: licences },
});
await build({ ...page, entryPoints: ["src/report.css"], outfile: "dist/report.css" });

const script = readFileSync("dist/report.js", "latin1");
const style = readFileSync("dist/report.css", "latin1");
if (/<\/script|<!--|[^\x00-\x7f]/i.test(script))
  throw new Error("dist/report.js cannot stand inside <script>");
if (/<\/style|<!--|[^\x00-\x7f]/i.test(style)) throw new Error("dist/report.css cannot stand inside <style>");

/** What esbuild cannot: classes, `const`, `for of` and the like as ES5 has them. It refuses what is left of ES2015. */
const loweredToES5 = {
  name: "es5",
  setup(bundle) {
    const compilerOptions = {
      target: ts.ScriptTarget.ES5,
      module: ts.ModuleKind.ESNext,
      downlevelIteration: true,
      importHelpers: true,
    };
    bundle.onLoad({ filter: /\.ts$/ }, ({ path: fileName }) => ({
      contents: ts.transpileModule(readFileSync(fileName, "utf8"), { fileName, compilerOptions }).outputText,
      loader: "js",
    }));
  },
};
await build({
  ...shared,
  entryPoints: ["src/charts.ts"],
  outfile: "dist/charts.js",
  format: "iife",
  target: "es5",
  // Not minifySyntax: Duktape cannot read a `for` whose first part has an `in` between parentheses.
  minifyWhitespace: true,
  minifyIdentifiers: true,
  define: { global: "globalThis" },
  plugins: [loweredToES5],
  banner: { js: licences },
});
