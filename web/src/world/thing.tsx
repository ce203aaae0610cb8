import { oneLine } from '../pieces/format.ts'

/** What the server calls a thing: its kind, its name, and why; names are paths and ids, and may be anything. */
export function Thing({ text }: { readonly text: string }) {
  const at = text.indexOf(': ')
  const [name, why] = at === -1 ? [text, undefined] : [text.slice(0, at), text.slice(at + 2)]
  return (
    <>
      <span className="mono">{oneLine(name, 200)}</span>
      {why === undefined ? '' : `: ${oneLine(why, 300)}`}
    </>
  )
}
