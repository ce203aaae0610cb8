import { z } from 'zod'

/**
 * The script: which answers the model gives. The first rule that matches a conversation answers it. Its first turn answers the
 * prompt; each further turn answers the tool results of the turn before. After the last turn the answer is `otherwise`.
 */

/** Sends text in pieces of `chars` characters, one every `everyMs`. Without a pace, the text is sent at once. */
const pace = z.strictObject({ everyMs: z.int().min(0).max(600_000), chars: z.int().min(1).default(8) })

const step = z.union(
  [
    /** Sends this text. */
    z.strictObject({ text: z.string(), pace: pace.optional() }),
    /** Sends the same text again and again until the client disconnects. */
    z.strictObject({ endless: z.string().min(1), pace: pace.default({ everyMs: 50, chars: 8 }) }),
    /** Calls the agent's own shell tool with this command, whatever the tool is named: Bash, exec_command, run_shell_command, bash. */
    z.strictObject({ shell: z.string().min(1) }),
    /** Calls any other tool, for example of an MCP server, by the name that the agent offers or by the end of that name. */
    z.strictObject({ tool: z.string().min(1), input: z.record(z.string(), z.unknown()).default({}) }),
    /**
     * Sends an HTTP error instead of an answer, or, after other steps, an error in the stream. After `times` errors this step is skipped.
     */
    z.strictObject({
      error: z.int().min(400).max(599),
      message: z.string().optional(),
      retryAfterMs: z.int().min(0).optional(),
      times: z.int().min(1).optional(),
    }),
    /** Sends nothing on the open connection, for that many milliseconds or until the client disconnects. */
    z.strictObject({ stall: z.union([z.int().min(0).max(3_600_000), z.literal('forever')]) }),
    /** Breaks the connection after the previous steps have been sent. After `times` breaks this step is skipped. */
    z.strictObject({ cut: z.literal(true), times: z.int().min(1).optional() }),
  ],
  { error: 'is no step; write {"text"}, {"endless"}, {"shell"}, {"tool"}, {"error"}, {"stall"} or {"cut"}, each with its own fields only' },
)

const turn = z.preprocess((given) => (Array.isArray(given) ? given : [given]), z.array(step).min(1))

const rule = z.strictObject({
  when: z
    .strictObject({
      /** Matches when the prompt contains this text. */
      prompt: z.string().optional(),
      /** Matches when the prompt matches this regular expression. */
      pattern: z.string().refine(isPattern, 'is no regular expression').optional(),
      /** Matches when the name of the requested model contains this text. */
      model: z.string().optional(),
    })
    .default({}),
  turns: z.array(turn).min(1),
})

export const script = z.strictObject({
  rules: z.array(rule).default([]),
  /** The answer when no rule matches, after the last turn of a rule, and for a turn whose errors are used up. */
  otherwise: z.string().default('OK.'),
})

/** A script as users write it. */
export interface Script {
  readonly rules?: readonly {
    readonly when?: z.input<typeof rule>['when']
    readonly turns: readonly (ScriptStep | readonly ScriptStep[])[]
  }[]
  readonly otherwise?: string
}
type ScriptStep = z.input<typeof step>
/** A script after validation, with its defaults. */
export type ReadScript = z.output<typeof script>
export type Rule = ReadScript['rules'][number]
export type Step = z.output<typeof step>
export type Pace = z.output<typeof pace>

function isPattern(source: string): boolean {
  try {
    return new RegExp(source) instanceof RegExp
  } catch {
    return false
  }
}
