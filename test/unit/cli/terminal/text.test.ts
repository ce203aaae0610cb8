import * as fc from 'fast-check'
import stringWidth from 'string-width'
import { describe, expect, it } from 'vitest'
import { ageOf, cut, cutStart, durationOf, harmless, letterWidth, padEnd, sizeOf, widthOf } from '../../../../src/cli/terminal/text.ts'

/** Text with combining marks, wide characters, emoji and control characters. */
const anyText = fc.string({ unit: 'binary', maxLength: 200 })
const widths = fc.integer({ min: 0, max: 120 })

describe('text width', () => {
  it.each([
    ['plain', 5],
    ['界', 2],
    ['ｆｕｌｌ', 8],
    ['ﾊﾝｶｸ', 4],
    ['한글', 4],
    ['e\u0301', 1],
    ['a\u0300\u0301\u0302', 1],
    ['👍', 2],
    ['✓ ⏺ ❯ … ⎿ ├─', 12],
    ['🇩🇪', 2],
    ['क्षि', 3],
    ['🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}', 2],
    ['\u{18d00}\u{1aff0}', 4],
    ['x\ufff9y', 2],
    ['', 0],
  ])('of %s is %d', (line, width) => {
    expect(widthOf(line)).toBe(width)
  })

  it('the width of a concatenation is the sum of the widths', () => {
    fc.assert(fc.property(anyText, anyText, (first, second) => widthOf(first + second) === widthOf(first) + widthOf(second)))
  })
})

/**
 * The characters whose width differs from string-width 8.3 on purpose. The widths here are those of tmux 3.3a with glibc 2.36, measured by
 * the position of the cursor.
 */
const differing = [
  {
    why: 'format characters that are shown',
    letters: /[\u00ad\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\uffa0\u{110bd}\u{110cd}]/u,
    width: 1,
  },
  { why: 'Hangul vowels and finals, which are part of the syllable before them', letters: /[\u1161-\u11ff]/, width: 0 },
  { why: 'Hangul fillers', letters: /[\u115f\u3164]/, width: 2 },
  { why: 'circled numbers on black squares', letters: /[\u3248-\u324f]/, width: 2 },
] as const

describe('text width, compared with string-width', () => {
  it('is the same for every letter that Unicode assigns, except for those listed', () => {
    const wrong: string[] = []
    // Planes 2 and 3 of Unicode hold only ideographs, so just the start of plane 2 is compared. Plane 14 has the tag characters.
    const codes = [...Array(0x20_100).keys(), ...Array.from({ length: 0x200 }, (_, at) => 0xe0_000 + at)]
    for (const code of codes) {
      const letter = String.fromCodePoint(code)
      if (/[\p{Cc}\p{Cs}\p{Cn}\p{Co}]/u.test(letter) || harmless(letter) !== letter) continue
      const expected = differing.find(({ letters }) => letters.test(letter))?.width ?? stringWidth(letter)
      if (letterWidth(letter) !== expected) wrong.push(`U+${code.toString(16)}: ${letterWidth(letter)}, not ${expected}`)
    }
    expect(wrong).toEqual([])
  })

  it('is never smaller for a text that is shown, except for keycaps, which terminals show in one column, and single Hangul letters', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 30 }), (text) => {
        const shown = harmless(text).replaceAll(/[\u20e3\u1160-\u11ff]/g, '')
        expect(widthOf(shown)).toBeGreaterThanOrEqual(stringWidth(shown))
      }),
      { numRuns: 1_000 },
    )
  })
})

describe('foreign text', () => {
  it('loses everything that moves a cursor, sets a title, rings a bell or reverses the line', () => {
    const trick = 'a\u001b[2Jb\u001b]0;title\u0007c\u001b[31md\u0000\u0008e\u009b2Jf\u202eg\u2066h'
    expect(harmless(trick)).toBe('abcdefgh')
    fc.assert(
      fc.property(anyText, (text) => {
        expect(harmless(text)).not.toMatch(/[^\P{Cc}\t\n]|[\u202a-\u202e\u2066-\u2069]/u)
        expect(harmless(harmless(text))).toBe(harmless(text))
      }),
    )
  })

  it('keeps all words: foreign line ends become line ends, and joined emoji become single ones', () => {
    expect(harmless('one\r\ntwo\rthree\r')).toBe('one\ntwo\nthree')
    expect(harmless('👩‍👩‍👧 ❤️ 👍🏽 🏳️‍🌈')).toBe('👩👩👧 ❤ 👍 🏳🌈')
  })

  it('a text of megabytes is cut quickly', () => {
    const long = Buffer.from('界\u001b[0m '.repeat(1_000_000)).toString()
    const startMs = performance.now()
    for (let index = 0; index < 100; index++) expect(widthOf(cut(long, 40))).toBeLessThanOrEqual(40)
    expect(performance.now() - startMs).toBeLessThan(10_000)
  })
})

describe('cut text', () => {
  it('is never too wide, is one line, and is unchanged when it fits', () => {
    fc.assert(
      fc.property(anyText, widths, (text, width) => {
        const short = cut(text, width)
        expect(widthOf(short)).toBeLessThanOrEqual(width)
        expect(short).not.toContain('\n')
        const whole = harmless(text).replaceAll(/\s+/g, ' ').trim()
        if (widthOf(whole) <= width) expect(short).toBe(whole)
        expect(widthOf(cutStart(short, 10))).toBeLessThanOrEqual(10)
      }),
    )
  })

  it.each([
    ['abcdef', 6, 'abcdef'],
    ['abcdefg', 6, 'abcde…'],
    ['界界界', 5, '界界…'],
    ['界界界', 4, '界…'],
    ['e\u0301e\u0301e\u0301', 2, 'e\u0301…'],
    ['abc', 1, '…'],
    ['abc', 0, ''],
    ['a\n\tb', 10, 'a b'],
  ])('%j in %d columns is %j', (text, width, short) => {
    expect(cut(text, width)).toBe(short)
  })

  it('is padded by its visible width', () => {
    expect(padEnd('界', 4)).toBe('界  ')
    expect(cutStart('/a/long/path.log', 9)).toBe('…path.log')
  })
})

it('text: ages, durations and sizes are short and readable', () => {
  expect([0, 59_999, 60_000, 3_600_000, 90_000_000, -5].map((ms) => ageOf(0, ms))).toEqual(['0s', '59s', '1m', '1h', '1d', '0s'])
  expect([0, 999, 1_000, 59_990, 60_000, 3_723_000].map(durationOf)).toEqual([
    '0 ms',
    '999 ms',
    '1.0 s',
    '59.9 s',
    '1 min 0 s',
    '1 h 2 min',
  ])
  expect([0, 999, 1_000, 10_240, 5_452_595, 2_147_483_648].map(sizeOf)).toEqual(['0 B', '999 B', '1.0 kB', '10 kB', '5.2 MB', '2.0 GB'])
})
