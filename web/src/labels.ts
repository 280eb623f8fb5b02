/** Names beside bars. */

/** In lines of at most `most` letters, broken at spaces where there are some; after the last of `lines` it is cut. */
export function wrapped(name: string, most: number, lines: number): string[] {
  const all: string[] = [];
  for (const word of name.split(" ")) {
    const last = all.length - 1;
    if (last >= 0 && all[last]!.length + 1 + word.length <= most) all[last] = `${all[last]} ${word}`;
    else for (let at = 0; at === 0 || at < word.length; at += most) all.push(word.slice(at, at + most));
  }
  if (all.length <= lines) return all;
  const kept = all.slice(0, lines);
  kept[lines - 1] = `${kept[lines - 1]!.slice(0, most - 1)}…`;
  return kept;
}
