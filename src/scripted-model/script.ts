import { z } from 'zod'

/**
 * What the model says, as data. The first rule that matches a conversation answers it: its first turn the prompt, each
 * further turn the results of the tools that the turn before it called. After the last turn it says `otherwise`.
 */

/** Text comes in pieces of `chars`, one every `everyMs`; without a pace, at once. */
const pace = z.strictObject({ everyMs: z.int().min(0).max(600_000), chars: z.int().min(1).default(8) })

const step = z.union(
  [
    /** Words. */
    z.strictObject({ text: z.string(), pace: pace.optional() }),
    /** Words without end, over and over, until the client goes. */
    z.strictObject({ endless: z.string().min(1), pace: pace.default({ everyMs: 50, chars: 8 }) }),
    /** A command for the agent's own shell tool, whatever that is called: Bash, exec_command, run_shell_command, bash. */
    z.strictObject({ shell: z.string().min(1) }),
    /** Any other tool, an MCP server's for example, by the name under which the agent offers it, or the end of that name. */
    z.strictObject({ tool: z.string().min(1), input: z.record(z.string(), z.unknown()).default({}) }),
    /** An HTTP error instead of an answer, or, after other steps, in the stream. `times`: then the turn goes on without it. */
    z.strictObject({
      error: z.int().min(400).max(599),
      message: z.string().optional(),
      retryAfterMs: z.int().min(0).optional(),
      times: z.int().min(1).optional(),
    }),
    /** Silence on an open connection: for so long, or until the client goes. */
    z.strictObject({ stall: z.union([z.int().min(0).max(3_600_000), z.literal('forever')]) }),
    /** The connection breaks here, after what was said before has arrived. `times` as above. */
    z.strictObject({ cut: z.literal(true), times: z.int().min(1).optional() }),
  ],
  { error: 'is no step; write {"text"}, {"endless"}, {"shell"}, {"tool"}, {"error"}, {"stall"} or {"cut"}, each with its own fields only' },
)

const turn = z.preprocess((given) => (Array.isArray(given) ? given : [given]), z.array(step).min(1))

const rule = z.strictObject({
  when: z
    .strictObject({
      /** The prompt contains this. */
      prompt: z.string().optional(),
      /** The prompt matches this regular expression. */
      pattern: z.string().refine(isPattern, 'is no regular expression').optional(),
      /** The model asked for has this in its name. */
      model: z.string().optional(),
    })
    .default({}),
  turns: z.array(turn).min(1),
})

export const script = z.strictObject({
  rules: z.array(rule).default([]),
  /** For what no rule matches, for a conversation that goes on after the last turn of its rule, and for a turn whose errors are over. */
  otherwise: z.string().default('OK.'),
})

/** As a person writes it. */
export interface Script {
  readonly rules?: readonly {
    readonly when?: z.input<typeof rule>['when']
    readonly turns: readonly (ScriptStep | readonly ScriptStep[])[]
  }[]
  readonly otherwise?: string
}
type ScriptStep = z.input<typeof step>
/** As the server reads it. */
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
