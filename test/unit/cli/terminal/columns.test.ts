import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Column, layOut } from '../../../../src/cli/terminal/columns.ts'
import { colours } from '../../../../src/cli/terminal/palette.ts'
import { harmless, widthOf } from '../../../../src/cli/terminal/text.ts'

const columns: readonly Column[] = [
  { name: 'ID', rank: 4 },
  { name: 'TYPE', least: 4, rank: 1 },
  { name: 'SIZE', rank: 3, isNumber: true },
  { name: 'TEXT', least: 6, rank: 2 },
]
const plain = (text: string): string => text
const row = (...texts: readonly string[]): readonly { readonly text: string }[] => texts.map((text) => ({ text }))

describe('table layout', () => {
  it('has columns as wide as needed, and numbers aligned to the right', () => {
    expect(layOut(columns, [row('a1', 'process', '7', 'hello'), row('b22', 'x', '1000', '界')], 80, plain)).toEqual([
      'ID   TYPE     SIZE  TEXT',
      'a1   process     7  hello',
      'b22  x        1000  界',
    ])
  })

  it('shrinks the columns that can best be shortened, and then omits the least important ones', () => {
    const rows = [row('12345678', 'a-long-type', '1234', 'a text that is rather long')]
    expect(layOut(columns, rows, 40, plain)[1]).toBe('12345678  a-long-type  1234  a text tha…')
    expect(layOut(columns, rows, 28, plain)).toEqual(['ID        TYPE  SIZE  TEXT', '12345678  a-l…  1234  a tex…'])
    expect(layOut(columns, rows, 24, plain)).toEqual(['ID        SIZE  TEXT', '12345678  1234  a text …'])
    expect(layOut(columns, rows, 14, plain)).toEqual(['ID        SIZE', '12345678  1234'])
    expect(layOut(columns, rows, 5, plain)).toEqual(['ID', '1234…'])
  })

  it('on a terminal is never wider than it, whatever the cells and colours', () => {
    const cells = fc.array(fc.array(fc.string({ unit: 'binary', maxLength: 60 }), { minLength: 4, maxLength: 4 }), { maxLength: 5 })
    fc.assert(
      fc.property(cells, fc.integer({ min: 1, max: 120 }), (texts, width) => {
        const rows = texts.map((row) => row.map((text) => ({ text, paint: colours.good })))
        for (const line of layOut(columns, rows, width, colours.faint)) expect(widthOf(harmless(line))).toBeLessThanOrEqual(width)
      }),
    )
  })

  it('in a pipe has all columns uncut, and a line for each record', () => {
    const long = 'x'.repeat(5_000)
    const lines = layOut(columns, [row('a', 'b\nc', '1', long), row('', '', '', '')], undefined, plain)
    expect(lines[0]).toMatch(/^ID +TYPE +SIZE +TEXT$/)
    expect(lines[1]).toBe(`a   b c      1  ${long}`)
    expect(lines).toHaveLength(3)
  })
})
