import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { parseEnvironmentTags } from '../../../../src/core/model/identity.ts'
import { parsePs } from '../../../../src/host/processes/ps.ts'

/** Output in the format of `ps -axwwE -o pid=,ppid=,pgid=,sess=,stat=,lstart=,command=` on macOS; the parser was never run on a Mac. */
const output = readFileSync(join(import.meta.dirname, '..', '..', '..', 'fixtures', 'golden', 'ps-macos.txt'), 'utf8')
const entries = new Map(parsePs(output).map((entry) => [entry.pid, entry]))

describe('parsePs', () => {
  it('returns every living process', () => {
    expect([...entries.keys()]).toEqual([1, 331, 612, 4021, 4711, 4712, 4720, 4725, 4730, 4731, 4740, 4741, 99_999])
  })

  it('leaves out zombies', () => {
    expect(entries.has(4726) || entries.has(4727)).toBe(false)
  })

  it('reads parent, group, state and command', () => {
    expect(entries.get(4720)).toMatchObject({ pid: 4720, ppid: 4711, pgid: 4720, sid: 4720, state: 'Ss', command: '/bin/sh' })
    expect(entries.get(4730)).toMatchObject({ ppid: 4720, pgid: 4720, state: 'T', command: 'vim' })
  })

  it('reads a program with spaces in its path, and one without a command line', () => {
    expect(entries.get(612)).toMatchObject({ ppid: 331, command: '/Applications/Visual', environmentTags: undefined })
    expect(entries.get(99_999)).toMatchObject({ ppid: 4720, command: '' })
  })

  it('reads start times as comparable seconds, also with a one-digit day', () => {
    expect(entries.get(4720)?.startTime).toBe(String(Date.UTC(2026, 10, 14, 9, 20, 12) / 1_000))
    expect(entries.get(1)?.startTime).toBe(String(Date.UTC(2026, 10, 8, 8, 1, 12) / 1_000))
    expect(Number(entries.get(4741)?.startTime)).toBeLessThan(Number(entries.get(1)?.startTime))
  })

  it('finds the environment tag at the end and in the middle of the environment, and after the tag of an outer Ebb', () => {
    const mark = { installation: 'a1b2c3d4e5f6', incarnation: '0f1e2d3c4b5a-0-4711-1794648011', resourceId: 'agent.1' }
    expect(parseEnvironmentTags(entries.get(4720)?.environmentTags ?? '')).toEqual([mark])
    expect(parseEnvironmentTags(entries.get(4725)?.environmentTags ?? '')).toEqual([
      { ...mark, installation: 'outer0000000', incarnation: '0f1e2d3c4b5a-0-100-1', resourceId: 'x.1' },
      mark,
    ])
  })

  it('finds no tag in a variable whose name only ends like EBB_SCOPE, or without access to the environment', () => {
    expect(entries.get(4740)?.environmentTags).toBeUndefined()
    expect(entries.get(4731)?.environmentTags).toBeUndefined()
  })

  it('finds the tag in the environment when an argument looks like one too', () => {
    expect(parseEnvironmentTags(entries.get(4741)?.environmentTags ?? '')).toEqual([
      { installation: 'a1b2c3d4e5f6', incarnation: '0f1e2d3c4b5a-0-4711-1794648011', resourceId: 'agent.1' },
    ])
  })

  it('ignores lines of unknown format', () => {
    expect(parsePs('')).toEqual([])
    expect(parsePs('\n\nps: illegal\n  PID  PPID\n')).toEqual([])
  })
})
