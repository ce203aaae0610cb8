/** Who may deploy whom: `PARENT>CHILD`, or `PARENT>CHILD:MAX`, with `*` for any part of a name. */

export interface SpawnRule {
  readonly text: string
  readonly parent: RegExp
  readonly child: RegExp
  /** So many of the children it speaks of may live at once in a task. */
  readonly most: number | undefined
}

/** The parent of those whom no agent deployed. */
export const orchestrator = 'orchestrator'

const shape = /^([A-Za-z0-9_*-]{1,64})>([A-Za-z0-9_*-]{1,64})(?::([1-9]\d{0,5}))?$/

/** Undefined for a text that is no rule. */
export function parseSpawnRule(text: string): SpawnRule | undefined {
  const [, parent, child, most] = shape.exec(text) ?? []
  if (parent === undefined || child === undefined) return undefined
  return { text, parent: glob(parent), child: glob(child), most: most === undefined ? undefined : Number(most) }
}

/** Several stars in a row are one: a pattern is never slow to match. */
function glob(pattern: string): RegExp {
  return new RegExp(`^${pattern.replaceAll(/\*+/g, '.*')}$`)
}
