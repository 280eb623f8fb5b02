/**
 * What the drawers use and engines that know ES5 alone lack. As much of it as the drawers need: iterators of arrays are none,
 * since code that TypeScript lowers counts through arrays without them, several times as fast.
 */

/** Adds what is not there, hidden from loops over names. */
function complete(target: object, added: Record<string, unknown>): void {
  for (const name of Object.keys(added)) {
    if (!(name in target))
      Object.defineProperty(target, name, { value: added[name], configurable: true, writable: true });
  }
}

/** Pairs in the order in which their keys came; a text and a number are different keys, objects are found by looking. */
class OldMap<Key, Value> {
  /** null: deleted. */
  private all: ([Key, Value] | null)[] = [];
  private deleted = 0;
  private readonly places: Record<string, number> = Object.create(null) as Record<string, number>;

  constructor(pairs?: Iterable<[Key, Value]> | null) {
    if (pairs) for (const [key, value] of pairs) this.set(key, value);
  }

  private placeOf(key: Key): number {
    if (typeof key === "string") return this.places[`"${key}`] ?? -1;
    if (typeof key === "number") return this.places[key] ?? -1;
    for (let at = 0; at < this.all.length; at++) if (this.all[at]?.[0] === key) return at;
    return -1;
  }

  get size(): number {
    return this.all.length - this.deleted;
  }
  has(key: Key): boolean {
    return this.placeOf(key) >= 0;
  }
  get(key: Key): Value | undefined {
    const place = this.placeOf(key);
    return place < 0 ? undefined : this.all[place]![1];
  }
  set(key: Key, value: Value): this {
    const place = this.placeOf(key);
    if (place >= 0) {
      this.all[place]![1] = value;
      return this;
    }
    if (typeof key === "string") this.places[`"${key}`] = this.all.length;
    if (typeof key === "number") this.places[key] = this.all.length;
    this.all.push([key, value]);
    return this;
  }
  delete(key: Key): boolean {
    const place = this.placeOf(key);
    if (place < 0) return false;
    delete this.places[typeof key === "string" ? `"${key}` : String(key)];
    this.all[place] = null;
    this.deleted++;
    return true;
  }
  entries(): [Key, Value][] {
    return this.all.filter((pair): pair is [Key, Value] => pair !== null);
  }
  keys(): Key[] {
    return this.entries().map(([key]) => key);
  }
  values(): Value[] {
    return this.entries().map(([, value]) => value);
  }
  forEach(visit: (value: Value, key: Key) => void): void {
    for (const [key, value] of this.entries()) visit(value, key);
  }
  [Symbol.iterator](): Iterator<[Key, Value]> {
    return counting(this.entries());
  }
}

class OldSet<Value> {
  private readonly all = new OldMap<Value, Value>();

  constructor(values?: Iterable<Value> | null) {
    if (values) for (const value of values) this.add(value);
  }

  get size(): number {
    return this.all.size;
  }
  has(value: Value): boolean {
    return this.all.has(value);
  }
  add(value: Value): this {
    this.all.set(value, value);
    return this;
  }
  forEach(visit: (value: Value) => void): void {
    this.all.forEach(visit);
  }
  [Symbol.iterator](): Iterator<Value> {
    return counting(this.all.keys());
  }
}

function counting<Value>(values: Value[]): Iterator<Value> {
  let at = 0;
  return {
    next: () =>
      at < values.length ? { done: false, value: values[at++]! } : { done: true, value: undefined },
  };
}

complete(globalThis, {
  Map: OldMap,
  Set: OldSet,
  // Nothing happens later: a chart is drawn at once.
  setTimeout: () => 0,
  clearTimeout: () => undefined,
});

complete(Object, {
  entries: (of: Record<string, unknown>) => Object.keys(of).map((key) => [key, of[key]]),
});

/** Of a Map, a Set, an array or something with a length. */
function listed<From, To>(from: Iterable<From> | ArrayLike<From>, change?: (value: From, at: number) => To) {
  const list: unknown[] = [];
  if ("length" in from) for (let at = 0; at < from.length; at++) list.push(from[at]);
  else for (const value of from) list.push(value);
  return change ? (list as From[]).map((value, at) => change(value, at)) : list;
}

complete(Array, { from: listed });

complete(Array.prototype, {
  entries<Value>(this: Value[]) {
    return this.map((value, at) => [at, value]);
  },
  find<Value>(this: Value[], is: (value: Value, at: number) => boolean) {
    for (let at = 0; at < this.length; at++) if (is(this[at]!, at)) return this[at];
    return undefined;
  },
  flatMap<Value, Made>(this: Value[], make: (value: Value, at: number) => Made | Made[]) {
    return ([] as Made[]).concat(...this.map(make));
  },
  includes<Value>(this: Value[], value: Value) {
    return this.indexOf(value) >= 0;
  },
});

for (const Kind of [Float64Array, Uint32Array, Uint8Array]) {
  complete(Kind, {
    from: (values: Iterable<number> | ArrayLike<number>, change?: (value: number, at: number) => number) =>
      new Kind(listed(values, change) as number[]),
  });
  complete(Kind.prototype, {
    fill(this: Float64Array, value: number) {
      for (let at = 0; at < this.length; at++) this[at] = value;
      return this;
    },
    forEach(this: Float64Array, visit: (value: number, at: number) => void) {
      for (let at = 0; at < this.length; at++) visit(this[at]!, at);
    },
    slice(this: Float64Array, from = 0, to = this.length) {
      return new Kind(this.subarray(from, to) as unknown as number[]);
    },
    sort(this: Float64Array, order: (a: number, b: number) => number) {
      this.set(listed<number, number>(this).sort(order as never) as number[]);
      return this;
    },
  });
}
