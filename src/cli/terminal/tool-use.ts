import type { Message } from '../../core/model/message.ts'

/** The content of a message about a tool: a call, a result, or both. */
export interface ToolUse {
  readonly call?: { readonly tool: string; readonly argument: string }
  readonly result?: string
  readonly isError: boolean
}

/**
 * Reads messages about tools. Programs send a call and its result as two messages, or both in one, or repeat the call with the
 * result. The ids of calls are remembered, so that a repeated call is not shown twice.
 */
export class ToolUses {
  readonly #called = new Map<string, string>()

  read({ content, metadata = {} }: Message): ToolUse {
    const { tool, toolUseId, isError, status, exitCode } = metadata
    const failed = isError === true
    if (typeof tool !== 'string') return { result: content, isError: failed }
    const id = typeof toolUseId === 'string' ? toolUseId : undefined
    const hasResult = isError !== undefined || exitCode !== undefined || (typeof status === 'string' && status !== 'in_progress')
    const earlier = id === undefined ? undefined : this.#called.get(id)
    if (earlier !== undefined)
      return { result: (content.startsWith(earlier) ? content.slice(earlier.length) : content).trim(), isError: failed }
    if (!hasResult) {
      if (id !== undefined) this.#remember(id, content)
      return { call: { tool, argument: argumentOf(tool, content) }, isError: failed }
    }
    const end = content.indexOf('\n')
    const [first, rest] = end < 0 ? [content, ''] : [content.slice(0, end), content.slice(end + 1)]
    return { call: { tool, argument: argumentOf(tool, first) }, ...(rest.trim() !== '' && { result: rest }), isError: failed }
  }

  /** Only the last 1,000 calls are kept: a result follows soon after its call, and a long-running agent makes many calls. */
  #remember(id: string, content: string): void {
    if (this.#called.size >= 1_000) this.#called.delete(this.#called.keys().next().value ?? '')
    this.#called.set(id, content)
  }
}

/** Removes the name of the tool: the argument of `Bash: npm test` is `npm test`. */
function argumentOf(tool: string, content: string): string {
  return content.startsWith(`${tool}:`) ? content.slice(tool.length + 1) : content
}
