import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Flow, wrap } from '../../../../src/cli/terminal/flow.ts'
import { harmless, widthOf } from '../../../../src/cli/terminal/text.ts'

const words = fc
  .array(
    fc.oneof(fc.constantFrom(' ', '  ', '\n', '\t', '界', 'e\u0301', 'word', 'x'.repeat(50)), fc.string({ unit: 'binary', maxLength: 12 })),
  )
  .map((parts) => harmless(parts.join('')))

describe('text flow', () => {
  it('breaks between words, and keeps lines and the indentation of code', () => {
    expect(wrap('the quick brown fox', 10)).toEqual(['the quick', 'brown fox'])
    expect(wrap('one\n\n    two three', 12)).toEqual(['one', '', '    two', 'three'])
    expect(wrap('a b', 20, '  ')).toEqual(['a b'])
    expect(wrap('the quick brown fox', 11, '  ')).toEqual(['the quick', '  brown fox'])
  })

  it('breaks a word only when it is too long for a line', () => {
    expect(wrap('see abcdefghijklmnop', 8)).toEqual(['see abcd', 'efghijkl', 'mnop'])
    expect(wrap('界界界界界', 5)).toEqual(['界界', '界界', '界'])
  })

  it('is never too wide, and has every letter once, in order', () => {
    fc.assert(
      fc.property(words, fc.integer({ min: 4, max: 80 }), fc.constantFrom('', '  '), (text, width, margin) => {
        const lines = wrap(text, width, margin)
        for (const line of lines) expect(widthOf(line)).toBeLessThanOrEqual(width)
        expect(lines.join('').replaceAll(/\s/g, '')).toBe(text.replaceAll(/\s/g, ''))
      }),
    )
  })

  it('is the same whatever pieces the text arrives in', () => {
    fc.assert(
      fc.property(words, fc.integer({ min: 1, max: 7 }), fc.integer({ min: 4, max: 60 }), (text, size, width) => {
        const flow = new Flow(width)
        const letters = Array.from(text)
        let shown = ''
        for (let at = 0; at < letters.length; at += size) shown += flow.write(letters.slice(at, at + size).join(''))
        const lines = (shown + flow.end()).split('\n').map((line) => line.trimEnd())
        expect(lines).toEqual(wrap(text, width))
      }),
    )
  })
})
