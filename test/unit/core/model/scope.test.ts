import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type CloseRequest, forgets, policyFor, renew, strengthen, triggers } from '../../../../src/core/model/close-request.ts'

const closeRequests: fc.Arbitrary<CloseRequest> = fc
  .record(
    {
      trigger: fc.constantFrom(...triggers),
      force: fc.boolean(),
      givesUp: fc.boolean(),
      forget: fc.boolean(),
      dropLogs: fc.boolean(),
      graceMs: fc.nat(10_000),
      deadlineMs: fc.nat(10_000),
    },
    { requiredKeys: ['trigger'] },
  )
  .map((closeRequest) => closeRequest as CloseRequest)

/** Everything but the reason, which is not a matter of strength. */
function strength({ force, givesUp, forget, dropLogs, graceMs, deadlineMs }: CloseRequest): unknown {
  return { force: force ?? false, givesUp: givesUp ?? false, forget: forget ?? false, dropLogs: dropLogs ?? false, graceMs, deadlineMs }
}

describe('the stronger wish (G6)', () => {
  it('force, deletion and the earlier deadline win, whoever asked first', () => {
    const weak: CloseRequest = { trigger: 'terminated', graceMs: 5_000, deadlineMs: 15_000 }
    const strong: CloseRequest = { trigger: 'terminated', force: true, forget: true, graceMs: 10, deadlineMs: 100 }
    expect(strengthen(weak, strong)).toEqual(strong)
    expect(strengthen(strong, weak)).toEqual(strong)
  })

  it('a close that joins another keeps the reason of the first', () => {
    expect(strengthen({ trigger: 'completed' }, { trigger: 'process-exit' }).trigger).toBe('completed')
  })

  it.each(['deleted', 'test-reset', 'launch-rollback'] as const)(
    'a close for %s joins as a deletion, though it does not say so',
    (trigger) => {
      expect(strengthen({ trigger: 'terminated' }, { trigger })).toMatchObject({ trigger: 'terminated', forget: true })
      expect(policyFor(strengthen({ trigger: 'terminated' }, { trigger })).keepsLogs).toBe(false)
    },
  )

  it('logs that are to be dropped are, whoever asked first; rows and scope stay', () => {
    for (const both of [
      strengthen({ trigger: 'terminated' }, { trigger: 'terminated', dropLogs: true }),
      strengthen({ trigger: 'terminated', dropLogs: true }, { trigger: 'process-exit' }),
      renew({ trigger: 'terminated', dropLogs: true }, { trigger: 'reaper' }),
    ]) {
      expect(policyFor(both).keepsLogs).toBe(false)
      expect(forgets(both)).toBe(false)
    }
  })

  it('a close asked for anew has the new reason and forgets nothing of the old wish', () => {
    expect(renew({ trigger: 'deleted', force: true }, { trigger: 'reaper' })).toMatchObject({
      trigger: 'reaper',
      force: true,
      forget: true,
    })
    expect(renew(undefined, { trigger: 'reaper' })).toEqual({ trigger: 'reaper' })
  })

  it('an exit that joins a stop leaves as little time as an exit by itself', () => {
    const { graceMs } = policyFor({ trigger: 'process-exit' })
    expect(policyFor({ trigger: 'terminated' }).graceMs).toBeGreaterThan(graceMs)
    expect(policyFor(strengthen({ trigger: 'terminated' }, { trigger: 'process-exit' })).graceMs).toBe(graceMs)
  })

  it.each([
    [10_000, 5_000],
    [3_000, 2_000],
    [100, 50],
  ])('a deadline of %d ms leaves %d ms of grace, because a kill takes time, too', (deadlineMs, graceMs) => {
    expect(policyFor({ trigger: 'deleted', deadlineMs })).toMatchObject({ deadlineMs, graceMs })
  })

  it('never grows weaker', () => {
    fc.assert(
      fc.property(closeRequests, closeRequests, (a, b) => {
        const both = strengthen(a, b)
        for (const one of [a, b]) {
          expect(both.force ?? false).toBe((both.force ?? false) || (one.force ?? false))
          expect(policyFor(both).keepsLogs && !policyFor(one).keepsLogs).toBe(false)
          if (one.graceMs !== undefined) expect(both.graceMs).toBeLessThanOrEqual(one.graceMs)
          if (one.deadlineMs !== undefined) expect(both.deadlineMs).toBeLessThanOrEqual(one.deadlineMs)
        }
      }),
    )
  })

  it('does not depend on who asked first, but for the reason', () => {
    fc.assert(
      fc.property(closeRequests, closeRequests, (a, b) => {
        expect(strength(strengthen(a, b))).toEqual(strength(strengthen(b, a)))
      }),
    )
  })

  it('does not depend on how three are put together', () => {
    fc.assert(
      fc.property(closeRequests, closeRequests, closeRequests, (a, b, c) => {
        expect(strengthen(strengthen(a, b), c)).toEqual(strengthen(a, strengthen(b, c)))
      }),
    )
  })

  it('asking for the same again changes nothing', () => {
    fc.assert(
      fc.property(closeRequests, closeRequests, (a, b) => {
        const once = strengthen(a, b)
        expect(strengthen(once, b)).toEqual(once)
        expect(policyFor(strengthen(a, a))).toEqual(policyFor(a))
      }),
    )
  })
})
