import { createHash } from 'node:crypto'
import type { Conversation } from './conversation.ts'
import { type ReadScript, type Rule, type Script, type Step, script as schema } from './script.ts'

/** The maximum number of error counts that are kept. The oldest are dropped. */
const countsKept = 10_000

/** A script, with the number of errors it has already returned to each conversation. */
export class Plot {
  readonly #script: ReadScript
  /**
   * How often each error with `times` was returned, by a hash of its place in the script and of the prompt. A prompt itself may be large.
   */
  readonly #errors = new Map<string, number>()

  constructor(script: Script) {
    const read = schema.safeParse(script)
    if (!read.success)
      throw new Error(
        `The script cannot be followed: ${read.error.issues.map(({ path, message }) => `${path.join('.') || 'script'}: ${message}`).join('; ')}.`,
      )
    this.#script = read.data
  }

  /** The next steps for a conversation. The turn is counted from the conversation itself, so a repeated request gets the same answer. */
  next(conversation: Conversation, session: string): { readonly rule: number; readonly steps: readonly Step[] } {
    const place = this.#script.rules.findIndex((one) => fits(one, conversation))
    const turn = this.#script.rules[place]?.turns[conversation.turn] ?? []
    const key = hash([place, conversation.turn, session, conversation.prompt])
    const steps = turn.filter((step, index) => !('times' in step && this.#isUsedUp(step.times, `${key} ${index}`)))
    // Agents treat an empty answer as an error, so an answer without steps becomes `otherwise`.
    return { rule: place, steps: steps.length > 0 ? steps : [{ text: this.#script.otherwise }] }
  }

  #isUsedUp(times: number | undefined, key: string): boolean {
    if (times === undefined) return false
    const count = this.#errors.get(key) ?? 0
    if (count < times) this.#errors.set(key, count + 1)
    const [oldest] = this.#errors.keys()
    if (this.#errors.size > countsKept && oldest !== undefined) this.#errors.delete(oldest)
    return count >= times
  }
}

function hash(of: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(of)).digest('base64')
}

function fits({ when }: Rule, { prompt, model }: Conversation): boolean {
  if (when.prompt !== undefined && !prompt.includes(when.prompt)) return false
  if (when.pattern !== undefined && !new RegExp(when.pattern).test(prompt)) return false
  return when.model === undefined || model.includes(when.model)
}
