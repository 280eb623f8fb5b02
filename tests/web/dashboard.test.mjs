// The Grafana dashboard against the types that Grafana publishes: what it sets has a name and a value that Grafana knows.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";

const web = process.env.COMMLENS_WEB;
const file = new URL("../../dashboards/grafana-commlens.json", import.meta.url);
const sdk = "@grafana/grafana-foundation-sdk";

// Members as JSON has them: enumerations as their texts, no functions. `Some`: Grafana has defaults for the rest.
const types = `
import type { Dashboard, Panel } from "${sdk}/dashboard";
import type { Dataquery } from "${sdk}/prometheus";
import type * as stat from "${sdk}/stat";
import type * as table from "${sdk}/table";
import type * as timeseries from "${sdk}/timeseries";
type Json<T> = 0 extends 1 & T ? T
  : T extends string ? \`\${T}\`
  : T extends number | boolean | null | undefined ? T
  : T extends (infer Item)[] ? Json<Item>[]
  : T extends object ? { [Key in keyof T as Key extends \`_implements\${string}\` ? never : Key]: Json<T[Key]> }
  : never;
type Some<T> = 0 extends 1 & T ? T
  : T extends string ? \`\${T}\`
  : T extends (infer Item)[] ? Some<Item>[]
  : T extends object ? { [Key in keyof T]?: Some<T[Key]> }
  : T;
`;

/** What tsc says of a dashboard. */
function said(dashboard) {
  const { panels, ...rest } = dashboard;
  let text = `${types}export const whole: Json<Omit<Dashboard, "panels">> = ${JSON.stringify(rest)};\n`;
  for (const { targets, options, ...panel } of panels) {
    const { id, type, fieldConfig } = panel;
    const custom = type === "stat" ? "Record<string, never>" : `Some<${type}.FieldConfig>`;
    text +=
      `export const panel${id}: Json<Omit<Panel, "targets" | "options">> = ${JSON.stringify(panel)};\n` +
      `export const options${id}: Some<${type}.Options> = ${JSON.stringify(options)};\n` +
      `export const custom${id}: ${custom} = ${JSON.stringify(fieldConfig.defaults.custom ?? {})};\n`;
    for (const target of targets)
      text += `export const query${id}${target.refId}: Json<Dataquery> = ${JSON.stringify(target)};\n`;
  }
  const folder = mkdtempSync(path.join(web, "dashboard-")); // below the packages
  try {
    writeFileSync(path.join(folder, "dashboard.ts"), text);
    const compilerOptions = {
      ...{ target: "es2022", module: "es2022", moduleResolution: "bundler" },
      ...{ strict: true, noEmit: true, skipLibCheck: true, types: [], exactOptionalPropertyTypes: false },
    };
    writeFileSync(
      path.join(folder, "tsconfig.json"),
      JSON.stringify({ compilerOptions, files: ["dashboard.ts"] }),
    );
    const compiler = path.join(web, "node_modules/typescript/bin/tsc");
    return spawnSync(process.execPath, [compiler, "-p", folder], { encoding: "utf8" }).stdout;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const shown = () => JSON.parse(readFileSync(file, "utf8"));

test("Grafana knows all that the dashboard sets", () => {
  assert.equal(said(shown()), "");
});

test("a misspelt member, and a value that is none, are found", () => {
  const dashboard = shown();
  dashboard.panels[0].colapsed = true;
  dashboard.panels[1].options.showHeadr = true;
  dashboard.panels[4].fieldConfig.defaults.custom.drawStyle = "lines";
  dashboard.panels[5].targets[0].legend = "";
  const found = said(dashboard);
  for (const word of ["colapsed", "showHeadr", '"lines"', "legend"])
    assert.ok(found.includes(word), `${word}: ${found}`);
});
