import { describe, expect, it } from 'vitest'
import { gainsByCompression, type KeptArchive, planRetention, type RetentionRules } from '../../../src/core/model/retention.ts'

const dayMs = 86_400_000
const nowMs = 1_000 * dayMs

/** An archive of the given age and size. */
const archive = (agentId: string, days: number, bytes: number, more: Partial<KeptArchive> = {}): KeptArchive => ({
  agentId,
  agentType: 'builder',
  endedMs: nowMs - days * dayMs,
  bytes,
  gains: true,
  ...more,
})

function plan(archives: readonly KeptArchive[], rules: Partial<RetentionRules>): unknown {
  const { going, compressing } = planRetention(archives, { byAgentType: new Map(), ...rules }, nowMs)
  return {
    going: going.map(({ archive: { agentId }, why }) => `${agentId}: ${why}`),
    compressing: compressing.map(({ agentId }) => agentId),
  }
}

describe('retention plan: removal', () => {
  it('removes archives older than maxAgeDays, and keeps one of exactly that age', () => {
    expect(plan([archive('a', 31, 1), archive('b', 30, 1), archive('c', -5, 1)], { maxAgeDays: 30 })).toEqual({
      going: ['a: age'],
      compressing: [],
    })
  })

  it('removes the oldest archives until the others fit into maxBytes', () => {
    const three = [archive('young', 1, 40), archive('old', 9, 40), archive('older', 10, 40)]
    expect(plan(three, { maxBytes: 80 })).toMatchObject({ going: ['older: size'] })
    expect(plan(three, { maxBytes: 79 })).toMatchObject({ going: ['older: size', 'old: size'] })
    expect(plan(three, { maxBytes: 0 })).toMatchObject({ going: ['older: size', 'old: size', 'young: size'] })
    expect(plan(three, {})).toMatchObject({ going: [] })
  })

  it('an archive removed for its age does not count towards maxBytes', () => {
    expect(plan([archive('a', 31, 100), archive('b', 5, 50)], { maxAgeDays: 30, maxBytes: 50 })).toMatchObject({ going: ['a: age'] })
  })

  it('applies maxAgeDays and maxBytes of an agent type to archives of that type', () => {
    const byAgentType = new Map([
      ['reviewer', { maxAgeDays: 3 }],
      ['builder', { maxBytes: 50 }],
    ])
    const all = [
      archive('r', 4, 1, { agentType: 'reviewer' }),
      archive('a', 5, 50),
      archive('b', 4, 50),
      archive('x', 29, 99, { agentType: 'x' }),
    ]
    expect(plan(all, { maxAgeDays: 30, byAgentType })).toMatchObject({ going: ['a: size of its type', 'r: age'] })
  })

  it('applies taskMaxBytes to the archives of one task', () => {
    const all = [
      archive('a', 3, 60, { taskId: 't' }),
      archive('b', 2, 60, { taskId: 't' }),
      archive('c', 1, 60, { taskId: 'u' }),
      archive('d', 9, 99),
    ]
    expect(plan(all, { taskMaxBytes: 100 })).toMatchObject({ going: ['a: size of its task'] })
  })
})

describe('retention plan: compression', () => {
  it('skips files smaller than a disk block and files that are compressed already', () => {
    const gains = (bytes: number, isCompressed: boolean): boolean => gainsByCompression({ bytes, isCompressed })
    expect([gains(4_095, false), gains(4_096, false), gains(4_096, true)]).toEqual([false, true, false])
  })

  it('compresses archives that are older than compressAfterDays, are kept and are not compressed yet', () => {
    const all = [archive('a', 8, 1), archive('b', 6, 1), archive('c', 8, 1, { gains: false }), archive('d', 40, 1)]
    expect(plan(all, { maxAgeDays: 30, compressAfterDays: 7 })).toEqual({ going: ['d: age'], compressing: ['a'] })
    const byAgentType = new Map([['builder', { compressAfterDays: Number.POSITIVE_INFINITY }]])
    expect(plan(all, { compressAfterDays: 7, byAgentType })).toEqual({ going: [], compressing: [] })
  })
})
