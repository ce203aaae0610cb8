/** Rules about which agents may deploy which: `PARENT>CHILD`, or `PARENT>CHILD:MAX`, with `*` for any part of a name. */

export interface SpawnRule {
  readonly text: string
  readonly parent: RegExp
  readonly child: RegExp
  /** How many matching children may run at the same time in a task. Undefined: no limit. */
  readonly most: number | undefined
}

/** The parent name of agents that were not deployed by another agent. */
export const orchestrator = 'orchestrator'

const shape = /^([A-Za-z0-9_*-]{1,64})>([A-Za-z0-9_*-]{1,64})(?::([1-9]\d{0,5}))?$/

/** Returns undefined for a text that is not a rule. */
export function parseSpawnRule(text: string): SpawnRule | undefined {
  const [, parent, child, most] = shape.exec(text) ?? []
  if (parent === undefined || child === undefined) return undefined
  return { text, parent: glob(parent), child: glob(child), most: most === undefined ? undefined : Number(most) }
}

/** Several stars in a row count as one, so that a pattern cannot make matching slow. */
function glob(pattern: string): RegExp {
  return new RegExp(`^${pattern.replaceAll(/\*+/g, '.*')}$`)
}
