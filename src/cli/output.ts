import { readAppearance } from '../config/appearance.ts'
import { errno, sentence } from '../core/model/errors.ts'
import type { Message } from '../core/model/message.ts'
import { type Style, styleOf } from './terminal/style.ts'
import { harmless } from './terminal/text.ts'

/** Standard output and standard error, as the commands write to them. */
export interface Output {
  /** Writes any text. On a terminal, control sequences are removed from it. */
  readonly out: (text: string) => void
  readonly err: (text: string) => void
  /** Writes text with Ebb's own colours. The caller has removed control sequences from all other text in it. */
  readonly painted: (text: string) => void
  readonly paintedError: (text: string) => void
  /** The width and colours of standard output and standard error. */
  readonly style: Style
  readonly errorStyle: Style
}

/** Opens standard output and error. The reader may go away at any time: `ebb logs ID | head`. */
export function openOutput(onClosed: (error: Error) => void, onWritten = (): void => {}): Output {
  process.stdout.on('error', onClosed)
  process.stderr.on('error', () => {}) // An error of standard error cannot be reported anywhere.
  const appearance = readAppearance()
  const safe = (stream: NodeJS.WriteStream, text: string): string => (stream.isTTY ? harmless(text) : text)
  const write = (text: string): void => {
    process.stdout.write(text)
    onWritten()
  }
  return {
    out: (text) => write(safe(process.stdout, text)),
    err: (text) => void process.stderr.write(safe(process.stderr, text)),
    painted: write,
    paintedError: (text) => void process.stderr.write(text),
    // The style is computed at each use, because the width of a terminal window changes.
    get style() {
      return styleOf(process.stdout, appearance)
    },
    get errorStyle() {
      return styleOf(process.stderr, appearance)
    },
  }
}

/** The message for an output that cannot be written, such as a full disk. A reader that has gone is not an error. */
export function unwritten(error: Error): string {
  return `ebb: The output could not be written (${sentence(error)}); check where it goes.\n`
}

/** For commands that only show something: they exit with 0 when the reader is gone, and with 1 when the disk is full. */
export function plainOutput(): Output {
  const onClosed = (error: Error): never => {
    if (errno(error) === 'EPIPE') process.exit(0)
    process.stderr.write(unwritten(error))
    process.exit(1)
  }
  // The error of standard output is checked after each write, because the event for it would come after the end of a short command.
  return openOutput(onClosed, () => process.stdout.errored && onClosed(process.stdout.errored))
}

const marks: Readonly<Partial<Record<Message['type'], string>>> = { user: '> ', tool: '[tool] ', system: '[system] ' }

/**
 * Prints messages where standard output is no terminal. Messages of the agent are printed as they are, others with a mark, and
 * errors go to standard error. With `isJson`, every message is one line of JSON on standard output, in order.
 */
export function messagePrinter({ out, err }: Pick<Output, 'out' | 'err'>, isJson: boolean): (messages: readonly Message[]) => void {
  return (messages) => {
    for (const message of messages) {
      if (isJson) out(`${JSON.stringify(message)}\n`)
      else if (message.type === 'error') err(`${message.content}\n`)
      else out(`${marks[message.type] ?? ''}${message.content}\n`)
    }
  }
}
