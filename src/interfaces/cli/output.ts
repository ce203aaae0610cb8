import { harmless, type Output } from './render.ts'

/** Standard output and error, of which the reader may go away at any time: `ebb logs ID | head`. */
export function openOutput(onClosed: () => void): Output {
  process.stdout.on('error', onClosed)
  process.stderr.on('error', () => {}) // There is nobody left to tell.
  const to = (stream: NodeJS.WriteStream) => (text: string) => void stream.write(stream.isTTY ? harmless(text) : text)
  return { out: to(process.stdout), err: to(process.stderr) }
}

/** For commands that only show something: nobody reads it any more, so it is done. */
export function plainOutput(): Output {
  return openOutput(() => process.exit(0))
}
