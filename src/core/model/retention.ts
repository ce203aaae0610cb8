/** Which archived logs are removed or compressed, and when. The functions are pure, so that a dry run can show the plan. */

/** A day is 24 hours. A limit that is absent does not apply. */
export interface RetentionRule {
  readonly maxAgeDays?: number
  readonly maxBytes?: number
  readonly compressAfterDays?: number
}

export interface RetentionRules extends RetentionRule {
  /** The limit, in bytes, for the archives of each task. */
  readonly taskMaxBytes?: number
  /** Rules for one type of agent, in place of the general ones. Its `maxBytes` applies to all agents of the type together. */
  readonly byAgentType: ReadonlyMap<string, RetentionRule>
}

/** The archive of one agent. It is removed as a whole. */
export interface KeptArchive {
  readonly agentId: string
  readonly agentType: string
  readonly taskId?: string
  /** When the agent ended, by the wall clock. The age counts from here, so copying or touching the files does not change it. */
  readonly endedMs: number
  readonly bytes: number
  /** True when compression would save space. */
  readonly gains: boolean
}

/** The smallest file that is worth compressing. A smaller file takes one block of the disk, compressed or not. */
const minimumBytes = 4_096

export function gainsByCompression({ bytes, isCompressed }: { readonly bytes: number; readonly isCompressed: boolean }): boolean {
  return !isCompressed && bytes >= minimumBytes
}

export type Reason = 'age' | 'size' | 'size of its task' | 'size of its type'

export interface RetentionPlan<A extends KeptArchive> {
  /** The archives to remove, oldest first. */
  readonly going: readonly { readonly archive: A; readonly why: Reason }[]
  readonly compressing: readonly A[]
}

const dayMs = 86_400_000

export function planRetention<A extends KeptArchive>(archives: readonly A[], rules: RetentionRules, nowMs: number): RetentionPlan<A> {
  const going = new Map<A, Reason>()
  const oldestFirst = archives.toSorted((a, b) => a.endedMs - b.endedMs)
  const isOlder = ({ endedMs }: A, days: number | undefined): boolean => days !== undefined && nowMs - endedMs > days * dayMs
  const ruleOf = ({ agentType }: A): RetentionRule => ({ ...rules, ...rules.byAgentType.get(agentType) })
  const shrink = (group: readonly A[], maxBytes: number | undefined, why: Reason): void => {
    const kept = group.filter((archive) => !going.has(archive))
    let bytes = kept.reduce((sum, archive) => sum + archive.bytes, 0)
    for (const archive of kept) {
      if (maxBytes === undefined || bytes <= maxBytes) return
      going.set(archive, why)
      bytes -= archive.bytes
    }
  }

  for (const archive of oldestFirst) if (isOlder(archive, ruleOf(archive).maxAgeDays)) going.set(archive, 'age')
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
    compressing: oldestFirst.filter(
      (archive) => !going.has(archive) && archive.gains && isOlder(archive, ruleOf(archive).compressAfterDays),
    ),
  }
}
