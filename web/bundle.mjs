// Bundles src/main.ts and src/report.css into dist/report.js and dist/report.css, and checks that both can stand inside
// a <script> and a <style> element as they are.
import { readFileSync } from "node:fs";
import { build } from "esbuild";

const licences = `/*!
Report page of commlens (Apache-2.0). Contains Apache ECharts (Apache-2.0, https://echarts.apache.org,
Copyright 2017-2026 The Apache Software Foundation), ZRender (BSD-3-Clause, Copyright (c) 2017, Baidu Inc.) and
tslib (0BSD, Copyright (c) Microsoft Corporation).
*/`;

const shared = { bundle: true, minify: true, legalComments: "none", logLevel: "warning", charset: "ascii" };
await build({
  ...shared,
  entryPoints: ["src/main.ts"],
  outfile: "dist/report.js",
  format: "iife",
  target: ["chrome103", "firefox113", "safari16.4"], // the first with DecompressionStream
  banner: { js: licences },
});
await build({
  ...shared,
  entryPoints: ["src/report.css"],
  outfile: "dist/report.css",
  target: ["chrome103", "firefox113", "safari16.4"],
});

const script = readFileSync("dist/report.js", "latin1");
const style = readFileSync("dist/report.css", "latin1");
if (/<\/script|<!--|[^\x00-\x7f]/i.test(script))
  throw new Error("dist/report.js cannot stand inside <script>");
if (/<\/style|<!--|[^\x00-\x7f]/i.test(style)) throw new Error("dist/report.css cannot stand inside <style>");
