import type { Message } from '../../core/model/message.ts'

/** What a message about a tool says: that it is called, what came of it, or both. */
export interface ToolUse {
  readonly call?: { readonly tool: string; readonly argument: string }
  readonly result?: string
  readonly isError: boolean
}

/**
 * Some programs tell of a call and of its result, some of both in one message, and some tell of the call again with the
 * result; those that were told of are known by their id.
 */
export class ToolUses {
  readonly #called = new Map<string, string>()

  read({ content, metadata = {} }: Message): ToolUse {
    const { tool, toolUseId, isError, status, exitCode } = metadata
    const failed = isError === true
    if (typeof tool !== 'string') return { result: content, isError: failed }
    const id = typeof toolUseId === 'string' ? toolUseId : undefined
    const isOver = isError !== undefined || exitCode !== undefined || (typeof status === 'string' && status !== 'in_progress')
    const earlier = id === undefined ? undefined : this.#called.get(id)
    if (earlier !== undefined)
      return { result: (content.startsWith(earlier) ? content.slice(earlier.length) : content).trim(), isError: failed }
    if (!isOver) {
      if (id !== undefined) this.#remember(id, content)
      return { call: { tool, argument: argumentOf(tool, content) }, isError: failed }
    }
    const end = content.indexOf('\n')
    const [first, rest] = end < 0 ? [content, ''] : [content.slice(0, end), content.slice(end + 1)]
    return { call: { tool, argument: argumentOf(tool, first) }, ...(rest.trim() !== '' && { result: rest }), isError: failed }
  }

  /** An agent of days calls many tools; a result comes soon after its call. */
  #remember(id: string, content: string): void {
    if (this.#called.size >= 1_000) this.#called.delete(this.#called.keys().next().value ?? '')
    this.#called.set(id, content)
  }
}

/** `Bash: npm test` is said of the tool Bash. */
function argumentOf(tool: string, content: string): string {
  return content.startsWith(`${tool}:`) ? content.slice(tool.length + 1) : content
}
