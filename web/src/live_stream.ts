/** Server-sent events by fetch, which unlike EventSource can show a token; comes back by itself when it is cut. */

export interface StreamEvent {
  name: string;
  data: string;
}

export type Connection = "connected" | "waiting" | "token wanted";

const shortestWait = 500;
const longestWait = 10_000;

/** Takes what has come of a stream apart; what is left of `text` is an event that has not ended. */
export function eventsIn(text: string): { events: StreamEvent[]; left: string } {
  const parts = text.split("\n\n");
  const left = parts.pop() ?? "";
  const events = parts.flatMap((part) => {
    let name = "message";
    const data: string[] = [];
    for (const line of part.split("\n")) {
      if (line.startsWith("event: ")) name = line.slice(7);
      else if (line.startsWith("data: ")) data.push(line.slice(6));
    }
    return data.length > 0 ? [{ name, data: data.join("\n") }] : [];
  });
  return { events, left };
}

async function readAll(body: ReadableStream<Uint8Array>, take: (event: StreamEvent) => void): Promise<void> {
  const reader = body
    .pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)
    .getReader();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const { events, left } = eventsIn(text + value);
      text = left;
      for (const event of events) take(event);
    }
  } finally {
    void reader.cancel().catch(() => {}); // a stream that nobody reads is not left open
  }
}

/** Follows `path` until the page is closed. `token` is asked before each try. */
export async function follow(
  path: string,
  token: () => string,
  take: (event: StreamEvent) => void,
  tell: (connection: Connection) => void,
): Promise<never> {
  let wait = shortestWait;
  for (;;) {
    try {
      const headers: Record<string, string> = token() === "" ? {} : { Authorization: `Bearer ${token()}` };
      const answer = await fetch(path, { headers, cache: "no-store" });
      if (answer.status === 401) tell("token wanted");
      else if (answer.ok && answer.body) {
        wait = shortestWait;
        tell("connected");
        await readAll(answer.body, take);
        tell("waiting");
      } else tell("waiting");
    } catch {
      tell("waiting"); // the server is gone, for now
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(longestWait, wait * 2);
  }
}
