import { describe, expect, it } from 'vitest'
import { rlimitTagIn, rlimitTagOf, rlimitTagText, setRlimitTag } from '../../../../src/host/containment/rlimit-tag.ts'

const mark = { installation: 'abc', incarnation: 'boot-1-2-3', resourceId: '28f5377f-c02f-4221-9510-51effc352d56.1' }

describe('a brand', () => {
  it('is a tree’s by its name alone, whichever supervisor asks', () => {
    expect(rlimitTagOf({ ...mark, incarnation: 'boot-1-4-5' })).toBe(rlimitTagOf(mark))
    expect(rlimitTagOf({ ...mark, resourceId: mark.resourceId.replace(/1$/, '2') })).not.toBe(rlimitTagOf(mark))
    expect(rlimitTagOf({ ...mark, installation: 'abd' })).not.toBe(rlimitTagOf(mark))
  })

  it('limits nothing: it is far beyond all memory, and a positive number in 64 bits', () => {
    for (let one = 0; one < 1_000; one++) {
      const kib = rlimitTagOf({ ...mark, resourceId: `some.${one}` })
      expect(Number.isSafeInteger(kib)).toBe(true)
      const bytes = BigInt(rlimitTagText({ ...mark, resourceId: `some.${one}` }))
      expect(bytes).toBe(BigInt(kib) * 1_024n)
      expect(bytes >= 1n << 62n && bytes < 1n << 63n).toBe(true)
    }
  })

  it('is hardly ever that of another tree: 200,000 have 200,000', () => {
    const brands = new Set<number>()
    for (let one = 0; one < 100_000; one++) {
      brands.add(rlimitTagOf({ ...mark, resourceId: mark.resourceId.replace('28f5', one.toString(16).padStart(8, '0')) }))
      brands.add(rlimitTagOf({ ...mark, resourceId: `${mark.resourceId}${one}` }))
    }
    expect(brands.size).toBe(200_000)
  })

  it('is what sh says in numbers of its own, and nothing else', () => {
    expect(setRlimitTag(mark)).toMatch(process.platform === 'linux' ? /^\{ command ulimit -m \d{16}; \} 2>\/dev\/null; $/ : /^$/)
  })

  it.each([
    ['unlimited', 'Max resident set          unlimited            unlimited            bytes     '],
    ['4613985351476849664', 'Max resident set          4613985351476849664  4613985351476849664  bytes     '],
    ['2048', 'Max resident set          1024                 2048                 bytes     '],
  ])('the hard limit %s is read', (expected, line) => {
    const before = 'Max core file size        unlimited            unlimited            bytes     \n'
    const after = '\nMax processes             95875                95875                processes \n'
    expect(rlimitTagIn(before + line + after)).toBe(expected)
  })

  it('is not there where no such line is', () => {
    expect(rlimitTagIn('')).toBe(undefined)
    expect(rlimitTagIn('Max processes             95875                95875                processes \n')).toBe(undefined)
  })
})
