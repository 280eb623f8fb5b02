/** The figures of a report as the HTML holds them (web/README.md), and their columns unpacked. */

export interface StoredColumn {
  name: string;
  title: string;
  unit: string;
  type: string;
  rows: number;
  data: string;
  dictionary?: string[];
}

export interface StoredFigure {
  kind: string;
  title: string;
  caption: string;
  options: Record<string, unknown>;
  columns: StoredColumn[];
}

export interface StoredReport {
  schema: string;
  title: string;
  figures: Record<string, StoredFigure>;
}

export type Values = Float64Array | Int32Array | Uint32Array | Uint16Array | Uint8Array;

/** A column: numbers, or indices of `dictionary`. */
export interface Column {
  name: string;
  title: string;
  unit: string;
  values: Values;
  dictionary?: string[];
}

export interface Figure {
  id: string;
  kind: string;
  title: string;
  caption: string;
  options: Record<string, unknown>;
  columns: Column[];
  rows: number;
}

export const schema = "commlens.report/1";

function bytesOfBase64(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

async function inflated(packed: Uint8Array<ArrayBuffer>): Promise<ArrayBuffer> {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

/** Doubles of which each but the first is the difference to the one before. */
function runningSum(values: Float64Array): Float64Array {
  for (let row = 1; row < values.length; row++) values[row] = values[row]! + values[row - 1]!;
  return values;
}

function typed(type: string, buffer: ArrayBuffer): Values {
  switch (type) {
    case "u8":
      return new Uint8Array(buffer);
    case "u16":
      return new Uint16Array(buffer);
    case "u32":
    case "text":
      return new Uint32Array(buffer);
    case "i32":
      return new Int32Array(buffer);
    case "f64":
      return new Float64Array(buffer);
    case "f64delta":
      return runningSum(new Float64Array(buffer));
    default:
      throw new Error(`unknown column type ${type}`);
  }
}

async function unpackedColumn(stored: StoredColumn): Promise<Column> {
  const values = typed(stored.type, await inflated(bytesOfBase64(stored.data)));
  if (values.length !== stored.rows) {
    throw new Error(`column ${stored.name} has ${values.length} values, not ${stored.rows}`);
  }
  const column: Column = { name: stored.name, title: stored.title, unit: stored.unit, values };
  if (stored.type === "text") column.dictionary = stored.dictionary ?? [];
  return column;
}

export async function unpacked(id: string, stored: StoredFigure): Promise<Figure> {
  const columns = await Promise.all(stored.columns.map(unpackedColumn));
  return {
    id,
    kind: stored.kind,
    title: stored.title,
    caption: stored.caption,
    options: stored.options ?? {},
    columns,
    rows: columns[0]?.values.length ?? 0,
  };
}

/** What the page holds, or null where it holds nothing this script knows. */
export function storedReport(): StoredReport | null {
  const text = document.getElementById("commlens-data")?.textContent;
  if (!text) return null;
  const report = JSON.parse(text) as StoredReport;
  return report.schema === schema ? report : null;
}

export function columnNamed(figure: Figure, name: unknown): Column | undefined {
  return typeof name === "string" ? figure.columns.find((column) => column.name === name) : undefined;
}

export function textAt(column: Column, row: number): string {
  const value = column.values[row] ?? 0;
  return column.dictionary ? (column.dictionary[value] ?? "") : String(value);
}

export function numberAt(column: Column | undefined, row: number): number {
  return column?.values[row] ?? Number.NaN;
}

/** The columns that an option lists, else the one that `fallback` names. */
export function valueColumns(figure: Figure, list: string, fallback: string): Column[] {
  const names = figure.options[list];
  const wanted = Array.isArray(names) && names.length > 0 ? names : [figure.options[fallback]];
  return wanted.flatMap((name) => columnNamed(figure, name) ?? []);
}

export function flag(figure: Figure, name: string): boolean {
  return figure.options[name] === true;
}
