import { createHash } from 'node:crypto'
import type { Conversation } from './conversation.ts'
import { type ReadScript, type Rule, type Script, type Step, script as schema } from './script.ts'

/** Of sessions that come and go without end, the oldest are forgotten. */
const countsKept = 10_000

/** A script, and how far each conversation has come in it. */
export class Plot {
  readonly #script: ReadScript
  /** How often an error that comes a few times only has come, by what it is for; a hash, as prompts may be large. */
  readonly #errors = new Map<string, number>()

  constructor(script: Script) {
    const read = schema.safeParse(script)
    if (!read.success)
      throw new Error(
        `The script cannot be followed: ${read.error.issues.map(({ path, message }) => `${path.join('.') || 'script'}: ${message}`).join('; ')}.`,
      )
    this.#script = read.data
  }

  /** What is said next. The turn is counted in the conversation itself: who asks again is told the same again. */
  next(conversation: Conversation, session: string): { readonly rule: number; readonly steps: readonly Step[] } {
    const place = this.#script.rules.findIndex((one) => fits(one, conversation))
    const turn = this.#script.rules[place]?.turns[conversation.turn] ?? []
    const key = hash([place, conversation.turn, session, conversation.prompt])
    const steps = turn.filter((step, index) => !('times' in step && this.#isOver(step.times, `${key} ${index}`)))
    // No model answers with nothing, and agents take that for an error.
    return { rule: place, steps: steps.length > 0 ? steps : [{ text: this.#script.otherwise }] }
  }

  #isOver(times: number | undefined, key: string): boolean {
    if (times === undefined) return false
    const come = this.#errors.get(key) ?? 0
    if (come < times) this.#errors.set(key, come + 1)
    const [oldest] = this.#errors.keys()
    if (this.#errors.size > countsKept && oldest !== undefined) this.#errors.delete(oldest)
    return come >= times
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
