import type { Message } from '../core/model/message.ts'
import type { Output } from './output.ts'

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
