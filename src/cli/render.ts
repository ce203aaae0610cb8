import type { Message } from '../core/model/message.ts'
import type { Output } from './output.ts'

/** What agents say, in a pipe: as it was said. */

const marks: Readonly<Partial<Record<Message['type'], string>>> = { user: '> ', tool: '[tool] ', system: '[system] ' }

/**
 * What the agent says, plainly; what others say, with a mark. Complaints go to standard error. As JSON: one message a
 * line, all of them, in order.
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
