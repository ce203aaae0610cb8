import { describe, expect, it } from 'vitest'
import { age, bytes, count, duration, oneLine, plainText, plural, shortName } from '../../../web/src/pieces/format.ts'

describe('plainText and oneLine', () => {
  it('plainText: removes terminal escape sequences and keeps the text', () => {
    expect(plainText('\u001b[1;31mred\u001b[0m and \u001b]0;a title\u0007plain\u001b(B\r\nnext\ttab')).toBe('red and plain␛(B\nnext\ttab')
  })

  it('plainText: makes control and direction-changing characters visible', () => {
    expect(plainText('a\u0000b\rc\u007fd\u0085e\u202ef\u2066g\u200fh')).toBe('a␀b␍c␡d⟨U+0085⟩e⟨U+202E⟩f⟨U+2066⟩g⟨U+200F⟩h')
  })

  it('plainText: leaves other scripts and emoji unchanged', () => {
    expect(plainText('שלום, 世界 👩‍🚀 é')).toBe('שלום, 世界 👩‍🚀 é')
  })

  it('plainText: handles a megabyte of escape sequences in linear time', () => {
    const startedMs = performance.now()
    plainText('\u001b]'.repeat(500_000))
    plainText('\u001b['.repeat(500_000))
    plainText(`\u001b]${'x'.repeat(1_000_000)}`)
    expect(performance.now() - startedMs).toBeLessThan(10_000)
  })

  it('oneLine: collapses blanks and shortens with an ellipsis', () => {
    expect(oneLine('  a\n\n b\tc  ')).toBe('a b c')
    expect(oneLine('x'.repeat(500), 10)).toBe(`${'x'.repeat(9)}…`)
  })

  it('oneLine and shortName: cut between graphemes, never within one', () => {
    expect(oneLine('👍'.repeat(50), 10)).toBe(`${'👍'.repeat(4)}…`)
    expect(oneLine(`abc${'👩‍🚀'.repeat(9)}`, 10)).toBe('abc👩‍🚀…')
    expect(oneLine('🇩🇪'.repeat(9), 8)).toBe('🇩🇪…')
    // A character that is cut in half is dropped, also where blanks take most of the examined text.
    expect(oneLine(`a${' '.repeat(38)}👍 and more`, 10)).toBe('a')
    expect(shortName(`/srv/${'👍'.repeat(40)}x`)).toBe(`…${'👍'.repeat(14)}x`)
  })
})

describe('numbers and times', () => {
  it('bytes, duration, age, count and plural: format for display', () => {
    expect([0, 999, 1_000, 3_600_000, 123_456_789_000].map(bytes)).toEqual(['0 B', '999 B', '1.0 kB', '3.6 MB', '123 GB'])
    expect([0.4, 999, 1_449, 61_000, 3_600_000, 90_000_000].map(duration)).toEqual([
      '0 ms',
      '999 ms',
      '1.4 s',
      '1 min 1 s',
      '1 h',
      '1 d 1 h',
    ])
    expect([0, 59_999, 60_000, 7_200_000, 172_800_000].map(age)).toEqual(['now', '59 s', '1 min', '2 h', '2 d'])
    expect(count(100_001)).toBe('100,001')
    expect([0, 1, 2].map((many) => plural(many, 'agent'))).toEqual(['no agents', '1 agent', '2 agents'])
  })
})
