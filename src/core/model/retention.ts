/** How long archived logs stay: pure, so that what would go can be shown before it goes. */

/** A day is 24 hours; a limit that is not there does not limit. */
export interface RetentionRule {
  readonly maxAgeDays?: number
  readonly maxBytes?: number
  readonly compressAfterDays?: number
}

export interface RetentionRules extends RetentionRule {
  /** Of each task. */
  readonly taskMaxBytes?: number
  /** What is different for agents of a type; its `maxBytes` is for all agents of the type together. */
  readonly byAgentType: ReadonlyMap<string, RetentionRule>
}

/** The archive of one agent; it goes as a whole. */
export interface KeptArchive {
  readonly agentId: string
  readonly agentType: string
  readonly taskId?: string
  /** When the agent ended, by the wall clock: from then on it is as old as it is. A copy or a touch changes nothing. */
  readonly endedMs: number
  readonly bytes: number
  /** Does something of it gain by compression? */
  readonly gains: boolean
}

/** Smaller ones take a block of the disk, compressed or not. */
const worthBytes = 4_096

export function gainsByCompression({ bytes, isCompressed }: { readonly bytes: number; readonly isCompressed: boolean }): boolean {
  return !isCompressed && bytes >= worthBytes
}

export type Reason = 'age' | 'size' | 'size of its task' | 'size of its type'

export interface RetentionPlan<A extends KeptArchive> {
  /** Oldest first. */
  readonly going: readonly { readonly archive: A; readonly why: Reason }[]
  readonly compressing: readonly A[]
}

const dayMs = 86_400_000

export function planRetention<A extends KeptArchive>(archives: readonly A[], rules: RetentionRules, nowMs: number): RetentionPlan<A> {
  const going = new Map<A, Reason>()
  const oldestFirst = archives.toSorted((a, b) => a.endedMs - b.endedMs)
  const isOlder = ({ endedMs }: A, days: number | undefined): boolean => days !== undefined && nowMs - endedMs > days * dayMs
  const ruleOf = ({ agentType }: A): RetentionRule => ({ ...rules, ...rules.byAgentType.get(agentType) })
  const shrink = (some: readonly A[], maxBytes: number | undefined, why: Reason): void => {
    const kept = some.filter((one) => !going.has(one))
    let bytes = kept.reduce((sum, one) => sum + one.bytes, 0)
    for (const one of kept) {
      if (maxBytes === undefined || bytes <= maxBytes) return
      going.set(one, why)
      bytes -= one.bytes
    }
  }

  for (const one of oldestFirst) if (isOlder(one, ruleOf(one).maxAgeDays)) going.set(one, 'age')
  for (const [type, { maxBytes }] of rules.byAgentType) {
    const ofType = oldestFirst.filter(({ agentType }) => agentType === type)
    shrink(ofType, maxBytes, 'size of its type')
  }
  for (const [taskId, ofTask] of Map.groupBy(oldestFirst, ({ taskId }) => taskId))
    if (taskId !== undefined) shrink(ofTask, rules.taskMaxBytes, 'size of its task')
  shrink(oldestFirst, rules.maxBytes, 'size')

  return {
    going: oldestFirst.flatMap((archive) => {
      const why = going.get(archive)
      return why === undefined ? [] : [{ archive, why }]
    }),
    compressing: oldestFirst.filter((one) => !going.has(one) && one.gains && isOlder(one, ruleOf(one).compressAfterDays)),
  }
}
