/** What the drawers use and engines that know ES5 alone lack. */
import "core-js/actual/array/entries";
import "core-js/actual/array/find";
import "core-js/actual/array/flat-map";
import "core-js/actual/array/from";
import "core-js/actual/array/includes";
import "core-js/actual/array/iterator";
import "core-js/actual/map";
import "core-js/actual/object/entries";
import "core-js/actual/set";
import "core-js/actual/typed-array/fill";
import "core-js/actual/typed-array/for-each";
import "core-js/actual/typed-array/from";
import "core-js/actual/typed-array/iterator";
import "core-js/actual/typed-array/slice";
import "core-js/actual/typed-array/sort";

// Nothing happens later: a chart is drawn at once.
const later = { setTimeout: () => 0, clearTimeout: () => {} };
for (const [name, value] of Object.entries(later))
  if (!(name in globalThis)) Object.assign(globalThis, { [name]: value });
