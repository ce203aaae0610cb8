import { isUtf8 } from 'node:buffer'
import * as fc from 'fast-check'
import { expect, it } from 'vitest'
import { type Line, LineCutter } from '../../../../src/agents/stream/lines.ts'

/** Returns the expected lines: the whole log is split at its newlines at once. */
function reference(log: Buffer, longestBytes: number): readonly Line[] {
  const lines: Line[] = []
  for (let offset = 0; offset < log.length; ) {
    const newline = log.indexOf(0x0a, offset)
    const end = newline < 0 ? log.length : newline
    const kept = log.subarray(offset, Math.min(end, offset + longestBytes))
    const isCut = end - offset > longestBytes
    lines.push({
      text: kept.toString('utf8'),
      offset,
      isValidUtf8: isCut || isUtf8(kept),
      ...(isCut && { totalBytes: end - offset }),
    })
    offset = end + 1
  }
  return lines
}

function cut(log: Buffer, sizes: readonly number[], longestBytes: number, from = 0, mostLines?: number): readonly Line[] {
  const cutter = new LineCutter(from, longestBytes)
  const lines: Line[] = []
  // Every chunk is put into the same memory, as in the reader.
  const memory = Buffer.alloc(Math.max(...sizes))
  for (let turn = 0; cutter.readOffset < log.length; turn++) {
    const size = log.copy(memory, 0, cutter.readOffset, cutter.readOffset + (sizes[turn % sizes.length] ?? 1))
    const more = cutter.add(memory.subarray(0, size), mostLines)
    expect(more.length).toBeLessThanOrEqual(mostLines ?? Number.POSITIVE_INFINITY)
    lines.push(...more)
    memory.fill('#')
  }
  const rest = cutter.rest()
  if (rest) lines.push(rest)
  expect(cutter.lineOffset).toBe(log.length)
  expect(cutter.rest()).toBeUndefined()
  return lines
}

/** A random byte. Newlines, parts of multi-byte characters, carriage returns and NULs are frequent. */
const byte = fc.oneof({ weight: 2, arbitrary: fc.constantFrom(0x0a, 0x0d, 0x00, 0xc3, 0xa4, 0xf0, 0x9f, 0x8c, 0x1b) }, fc.nat(255))
const log = fc.array(byte, { maxLength: 200 }).map((bytes) => Buffer.from(bytes))
const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 10 })
const longest = fc.integer({ min: 1, max: 30 })

it('LineCutter: lines and positions do not depend on chunk sizes or on how many lines are taken at once', () => {
  fc.assert(
    fc.property(log, sizes, longest, fc.integer({ min: 1, max: 10 }), (bytes, chunks, most, mostLines) => {
      expect(cut(bytes, chunks, most, 0, mostLines)).toEqual(reference(bytes, most))
    }),
    { numRuns: 2_000 },
  )
})

it('LineCutter: a cutter that starts at the position of any line returns exactly the remaining lines', () => {
  fc.assert(
    fc.property(log, sizes, longest, (bytes, chunks, most) => {
      const all = reference(bytes, most)
      for (const [index, line] of all.entries()) expect(cut(bytes, chunks, most, line.offset)).toEqual(all.slice(index))
    }),
    { numRuns: 500 },
  )
})

it('LineCutter: lineOffset is always the beginning of a line', () => {
  fc.assert(
    fc.property(log, sizes, (bytes, chunks) => {
      const begins = new Set([0, bytes.length, ...reference(bytes, 1_000).map(({ offset }) => offset)])
      const cutter = new LineCutter(0)
      for (let turn = 0; cutter.readOffset < bytes.length; turn++) {
        cutter.add(bytes.subarray(cutter.readOffset, cutter.readOffset + (chunks[turn % chunks.length] ?? 1)))
        expect(begins).toContain(cutter.lineOffset)
      }
    }),
  )
})

it('LineCutter: a longer line is cut at the limit, and its full length is recorded', () => {
  const bytes = Buffer.from(`${'ä'.repeat(1_048_576)}\nshort\n`)
  const [long, short] = cut(bytes, [65_536], 1_048_576)
  expect(long).toMatchObject({ totalBytes: 2_097_152, isValidUtf8: true, offset: 0 })
  expect(long?.text).toBe('ä'.repeat(524_288))
  expect(short).toEqual({ text: 'short', offset: 2_097_153, isValidUtf8: true })
})

it('LineCutter: the default limit of a line is 1 MiB', () => {
  const lines = new LineCutter(0).add(Buffer.concat([Buffer.alloc(1_048_577, 'x'), Buffer.from('\n')]))
  expect(lines.map(({ text, totalBytes }) => [text.length, totalBytes])).toEqual([[1_048_576, 1_048_577]])
})
