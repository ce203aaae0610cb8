import { readAppearance } from '../config/appearance.ts'
import { errno, sentence } from '../core/model/errors.ts'
import { type Face, faceOf } from './terminal/face.ts'
import { harmless } from './terminal/text.ts'

/** Where words go; a test, or a closed pipe, may want them elsewhere. */
export interface Output {
  /** Anybody's words: on a terminal they are made harmless. */
  readonly out: (text: string) => void
  readonly err: (text: string) => void
  /** Words with colours of ours, of which the foreign ones were made harmless by whoever painted them. */
  readonly painted: (text: string) => void
  readonly paintedError: (text: string) => void
  /** How standard output and error may look. */
  readonly face: Face
  readonly errorFace: Face
}

/** Standard output and error, of which the reader may go away at any time: `ebb logs ID | head`. */
export function openOutput(onClosed: (error: Error) => void, onWritten = (): void => {}): Output {
  process.stdout.on('error', onClosed)
  process.stderr.on('error', () => {}) // There is nobody left to tell.
  const appearance = readAppearance()
  const words = (stream: NodeJS.WriteStream, text: string): string => (stream.isTTY ? harmless(text) : text)
  const show = (text: string): void => {
    process.stdout.write(text)
    onWritten()
  }
  return {
    out: (text) => show(words(process.stdout, text)),
    err: (text) => void process.stderr.write(words(process.stderr, text)),
    painted: show,
    paintedError: (text) => void process.stderr.write(text),
    // Asked each time: a window changes its width.
    get face() {
      return faceOf(process.stdout, appearance)
    },
    get errorFace() {
      return faceOf(process.stderr, appearance)
    },
  }
}

/** A full disk, and whatever else is no reader that has gone. */
export function unwritten(error: Error): string {
  return `ebb: The output could not be written (${sentence(error)}); check where it goes.\n`
}

/** For commands that only show something: nobody reads it any more, so it is done. A full disk is another matter. */
export function plainOutput(): Output {
  const onClosed = (error: Error): never => {
    if (errno(error) === 'EPIPE') process.exit(0)
    process.stderr.write(unwritten(error))
    process.exit(1)
  }
  // The event would come after the end of a command that has no more to do.
  return openOutput(onClosed, () => process.stdout.errored && onClosed(process.stdout.errored))
}
