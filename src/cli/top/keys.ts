const esc = '\u001b'

/** The names of keys by the sequences that terminals send (ECMA-48 and xterm). */
const sequences: ReadonlyMap<string, string> = new Map([
  ['\u001b[A', 'up'],
  ['\u001b[B', 'down'],
  ['\u001b[C', 'right'],
  ['\u001b[D', 'left'],
  ['\u001bOA', 'up'],
  ['\u001bOB', 'down'],
  ['\u001bOC', 'right'],
  ['\u001bOD', 'left'],
  ['\u001b[H', 'home'],
  ['\u001b[F', 'end'],
  ['\u001b[1~', 'home'],
  ['\u001b[4~', 'end'],
  ['\u001b[5~', 'page-up'],
  ['\u001b[6~', 'page-down'],
  ['\u001b', 'escape'],
  ['\r', 'enter'],
  ['\n', 'enter'],
  ['\u0003', 'ctrl-c'],
  ['\u001a', 'ctrl-z'],
])

const keyPattern = new RegExp(`${esc}(?:\\[[\\d;]*[A-Za-z~]|O[A-Za-z])?|[^]`, 'gu')

/** Splits terminal input into names of keys. Several keys may arrive at once. An unknown sequence is ignored as a whole. */
export function keysOf(data: string): readonly string[] {
  return (data.match(keyPattern) ?? []).flatMap((text) => {
    const name = sequences.get(text) ?? (text.startsWith('\u001b') ? undefined : text)
    return name === undefined ? [] : [name]
  })
}
