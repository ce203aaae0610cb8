import { describe, expect, it } from 'vitest'
import { rlimitTagIn, rlimitTagOf, rlimitTagText, setRlimitTag } from '../../../../src/host/containment/rlimit-tag.ts'

const mark = { installation: 'abc', incarnation: 'boot-1-2-3', resourceId: '28f5377f-c02f-4221-9510-51effc352d56.1' }

describe('rlimit tag', () => {
  it('depends on the name of the tree alone, not on the incarnation', () => {
    expect(rlimitTagOf({ ...mark, incarnation: 'boot-1-4-5' })).toBe(rlimitTagOf(mark))
    expect(rlimitTagOf({ ...mark, resourceId: mark.resourceId.replace(/1$/, '2') })).not.toBe(rlimitTagOf(mark))
    expect(rlimitTagOf({ ...mark, installation: 'abd' })).not.toBe(rlimitTagOf(mark))
  })

  it('limits nothing: it is larger than any memory, and positive as a signed 64-bit number', () => {
    for (let index = 0; index < 1_000; index++) {
      const kib = rlimitTagOf({ ...mark, resourceId: `some.${index}` })
      expect(Number.isSafeInteger(kib)).toBe(true)
      const bytes = BigInt(rlimitTagText({ ...mark, resourceId: `some.${index}` }))
      expect(bytes).toBe(BigInt(kib) * 1_024n)
      expect(bytes >= 1n << 62n && bytes < 1n << 63n).toBe(true)
    }
  })

  it('differs between trees: 200,000 names have 200,000 tags', () => {
    const tags = new Set<number>()
    for (let index = 0; index < 100_000; index++) {
      tags.add(rlimitTagOf({ ...mark, resourceId: mark.resourceId.replace('28f5', index.toString(16).padStart(8, '0')) }))
      tags.add(rlimitTagOf({ ...mark, resourceId: `${mark.resourceId}${index}` }))
    }
    expect(tags.size).toBe(200_000)
  })

  it('is set by one ulimit line of sh on Linux, and not at all elsewhere', () => {
    expect(setRlimitTag(mark)).toMatch(process.platform === 'linux' ? /^\{ command ulimit -m \d{16}; \} 2>\/dev\/null; $/ : /^$/)
  })

  it.each([
    ['unlimited', 'Max resident set          unlimited            unlimited            bytes     '],
    ['4613985351476849664', 'Max resident set          4613985351476849664  4613985351476849664  bytes     '],
    ['2048', 'Max resident set          1024                 2048                 bytes     '],
  ])('rlimitTagIn reads the hard limit %s', (expected, line) => {
    const before = 'Max core file size        unlimited            unlimited            bytes     \n'
    const after = '\nMax processes             95875                95875                processes \n'
    expect(rlimitTagIn(before + line + after)).toBe(expected)
  })

  it('rlimitTagIn returns undefined when the line is missing', () => {
    expect(rlimitTagIn('')).toBe(undefined)
    expect(rlimitTagIn('Max processes             95875                95875                processes \n')).toBe(undefined)
  })
})
