import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseDuration } from '../../../../src/core/model/duration.ts'

describe('parseDuration', () => {
  it.each([
    ['250ms', 250],
    ['5s', 5_000],
    ['2m', 120_000],
    ['1h', 3_600_000],
    ['0s', 0],
    ['1.5s', 1_500],
    ['0.001s', 1],
    ['2147483647ms', 2_147_483_647],
  ])('%s is %i ms', (text, ms) => {
    expect(parseDuration(text, '--grace')).toBe(ms)
  })

  it.each(['', '5', '5 s', ' 5s', '5s ', '-1s', '+1s', '1e3s', '.5s', '5S', '5d', 's', 'Infinitys', 'NaNms', '5s5s', '5s\n', '٥s'])(
    'refuses %j, and names the option',
    (text) => {
      expect(() => parseDuration(text, '--grace')).toThrow(
        expect.objectContaining({ code: 'bad_usage', message: expect.stringContaining('--grace') }),
      )
    },
  )

  it.each(['2147483648ms', '597h', '9999999999h'])('refuses %s, which is longer than a Node timer allows', (text) => {
    expect(() => parseDuration(text, 'EBB_TIMEOUT')).toThrow(`EBB_TIMEOUT must be a duration of 596h at most, not "${text}".`)
  })

  it('accepts only what is a whole number of milliseconds within the range of a timer', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^\d{1,12}(\.\d{1,4})?(ms|s|m|h)$/), (text) => {
        try {
          const ms = parseDuration(text, 'x')
          expect(Number.isInteger(ms) && ms >= 0 && ms < 2 ** 31).toBe(true)
        } catch (error) {
          expect(error).toMatchObject({ code: 'bad_usage' })
        }
      }),
    )
  })
})
