import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Policy, policyFor, triggers } from '../../../../src/core/model/close-request.ts'
import { ladder, ladderSteps } from '../../../../src/core/model/ladder.ts'

const policy = (more: Partial<Policy> = {}): Policy => ({
  firstStep: 'polite',
  graceMs: 5_000,
  deadlineMs: 15_000,
  keepsLogs: true,
  givesUp: false,
  ...more,
})

describe('ladder', () => {
  it('splits the grace between polite and terminate, and gives the kill the deadline', () => {
    expect(ladder(policy(), ladderSteps)).toEqual([
      { step: 'polite', budgetMs: 2_500 },
      { step: 'terminate', budgetMs: 2_500 },
      { step: 'kill', budgetMs: 15_000 },
    ])
  })

  it('gives all the grace to terminate for a kind without a polite step', () => {
    expect(ladder(policy(), ['terminate', 'kill'])).toEqual([
      { step: 'terminate', budgetMs: 5_000 },
      { step: 'kill', budgetMs: 15_000 },
    ])
  })

  it('has only the kill for a kind that knows no other step', () => {
    expect(ladder(policy(), ['kill'])).toEqual([{ step: 'kill', budgetMs: 15_000 }])
  })

  it('starts with the first step of the policy', () => {
    expect(ladder(policy({ firstStep: 'terminate' }), ladderSteps).map(({ step }) => step)).toEqual(['terminate', 'kill'])
    expect(ladder(policy({ firstStep: 'kill' }), ladderSteps).map(({ step }) => step)).toEqual(['kill'])
  })

  it('property: steps are in order, budgets are whole and not negative, and gentle steps never exceed the grace', () => {
    const policies = fc.record({ firstStep: fc.constantFrom(...ladderSteps), graceMs: fc.nat(100_000), deadlineMs: fc.nat(100_000) })
    fc.assert(
      fc.property(policies, fc.subarray([...ladderSteps]), (more, known) => {
        const rungs = ladder(policy(more), known)
        const order = rungs.map(({ step }) => ladderSteps.indexOf(step))
        expect(order).toEqual(order.toSorted((a, b) => a - b))
        for (const { budgetMs } of rungs) expect(Number.isInteger(budgetMs) && budgetMs >= 0).toBe(true)
        const gentle = rungs.filter(({ step }) => step !== 'kill').reduce((sum, { budgetMs }) => sum + budgetMs, 0)
        expect(gentle).toBeLessThanOrEqual(more.graceMs)
      }),
    )
  })
})

describe('policyFor', () => {
  it.each([
    ['completed', 'terminate', true],
    ['terminated', 'polite', true],
    ['deleted', 'polite', false],
    ['request-finished', 'polite', true],
    ['process-exit', 'terminate', true],
    ['test-reset', 'polite', false],
    ['launch-rollback', 'terminate', false],
    ['reaper', 'polite', true],
    ['recovery', 'kill', true],
  ] as const)('trigger %s begins with %s, and keeps logs: %s', (trigger, firstStep, keepsLogs) => {
    expect(policyFor({ trigger })).toMatchObject({ firstStep, keepsLogs, givesUp: false })
  })

  it('an exit has less grace than a stop, and a recovery has none', () => {
    expect(policyFor({ trigger: 'process-exit' }).graceMs).toBeLessThan(policyFor({ trigger: 'terminated' }).graceMs)
    expect(policyFor({ trigger: 'recovery' }).graceMs).toBe(0)
  })

  it.each(triggers)('force goes straight to the kill for trigger %s', (trigger) => {
    expect(policyFor({ trigger, force: true, graceMs: 9_000 })).toMatchObject({ firstStep: 'kill', graceMs: 0, givesUp: true })
  })

  it.each(triggers)('leaves time for the kill after the grace for trigger %s', (trigger) => {
    const { graceMs, deadlineMs } = policyFor({ trigger })
    expect(deadlineMs).toBeGreaterThan(graceMs)
  })

  it('uses the grace, deadline and forget of the request', () => {
    expect(policyFor({ trigger: 'completed', graceMs: 1, deadlineMs: 2, forget: true })).toMatchObject({
      graceMs: 1,
      deadlineMs: 2,
      keepsLogs: false,
    })
  })
})
