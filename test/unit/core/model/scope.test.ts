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

/** Returns every field of a close request but the trigger, which has no strength. */
function strength({ force, givesUp, forget, dropLogs, graceMs, deadlineMs }: CloseRequest): unknown {
  return { force: force ?? false, givesUp: givesUp ?? false, forget: forget ?? false, dropLogs: dropLogs ?? false, graceMs, deadlineMs }
}

describe('combining close requests (G6)', () => {
  it('strengthen: force, deletion and the earlier deadline win in either order', () => {
    const weak: CloseRequest = { trigger: 'terminated', graceMs: 5_000, deadlineMs: 15_000 }
    const strong: CloseRequest = { trigger: 'terminated', force: true, forget: true, graceMs: 10, deadlineMs: 100 }
    expect(strengthen(weak, strong)).toEqual(strong)
    expect(strengthen(strong, weak)).toEqual(strong)
  })

  it('strengthen keeps the trigger of the first request', () => {
    expect(strengthen({ trigger: 'completed' }, { trigger: 'process-exit' }).trigger).toBe('completed')
  })

  it.each(['deleted', 'test-reset', 'launch-rollback'] as const)(
    'strengthen: trigger %s counts as a deletion without saying so',
    (trigger) => {
      expect(strengthen({ trigger: 'terminated' }, { trigger })).toMatchObject({ trigger: 'terminated', forget: true })
      expect(policyFor(strengthen({ trigger: 'terminated' }, { trigger })).keepsLogs).toBe(false)
    },
  )

  it('dropLogs wins in either order, and does not forget rows or scope', () => {
    for (const both of [
      strengthen({ trigger: 'terminated' }, { trigger: 'terminated', dropLogs: true }),
      strengthen({ trigger: 'terminated', dropLogs: true }, { trigger: 'process-exit' }),
      renew({ trigger: 'terminated', dropLogs: true }, { trigger: 'reaper' }),
    ]) {
      expect(policyFor(both).keepsLogs).toBe(false)
      expect(forgets(both)).toBe(false)
    }
  })

  it('renew takes the new trigger, and keeps the old force and deletion', () => {
    expect(renew({ trigger: 'deleted', force: true }, { trigger: 'reaper' })).toMatchObject({
      trigger: 'reaper',
      force: true,
      forget: true,
    })
    expect(renew(undefined, { trigger: 'reaper' })).toEqual({ trigger: 'reaper' })
  })

  it('strengthen: an exit that joins a stop has only the grace of an exit', () => {
    const { graceMs } = policyFor({ trigger: 'process-exit' })
    expect(policyFor({ trigger: 'terminated' }).graceMs).toBeGreaterThan(graceMs)
    expect(policyFor(strengthen({ trigger: 'terminated' }, { trigger: 'process-exit' })).graceMs).toBe(graceMs)
  })

  it.each([
    [10_000, 5_000],
    [3_000, 2_000],
    [100, 50],
  ])('a deadline of %d ms leaves %d ms of grace, because the kill needs time, too', (deadlineMs, graceMs) => {
    expect(policyFor({ trigger: 'deleted', deadlineMs })).toMatchObject({ deadlineMs, graceMs })
  })

  it('property: strengthen never weakens a request', () => {
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

  it('property: strengthen is commutative, except for the trigger', () => {
    fc.assert(
      fc.property(closeRequests, closeRequests, (a, b) => {
        expect(strength(strengthen(a, b))).toEqual(strength(strengthen(b, a)))
      }),
    )
  })

  it('property: strengthen is associative', () => {
    fc.assert(
      fc.property(closeRequests, closeRequests, closeRequests, (a, b, c) => {
        expect(strengthen(strengthen(a, b), c)).toEqual(strengthen(a, strengthen(b, c)))
      }),
    )
  })

  it('property: strengthen is idempotent', () => {
    fc.assert(
      fc.property(closeRequests, closeRequests, (a, b) => {
        const once = strengthen(a, b)
        expect(strengthen(once, b)).toEqual(once)
        expect(policyFor(strengthen(a, a))).toEqual(policyFor(a))
      }),
    )
  })
})
