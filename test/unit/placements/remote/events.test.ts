import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { EventReader } from '../../../../src/placements/remote/events.ts'
import { EventWriter, event, ping } from '../../../../src/server/runner/event-writer.ts'

/**
 * The events that Ebb's runner sends and Ebb's client parses. The client must receive the bytes that the agent wrote, however they are
 * split on the way.
 */

const newline = 0x0a

function chunks(bytes: Buffer, cuts: readonly number[]): readonly Buffer[] {
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length]
  return places.slice(1).map((end, index) => bytes.subarray(places[index], end))
}

function received(sent: readonly Buffer[]): { readonly output: Buffer; readonly last: string | undefined } {
  const reader = new EventReader()
  const news = sent.flatMap((chunk) => reader.add(chunk))
  const output = Buffer.concat(news.flatMap((item) => (item.is === 'output' ? [Buffer.from(item.bytes)] : [])))
  return { output, last: news.findLast(({ is }) => is === 'complete' || is === 'error')?.is }
}

/** Random output of an agent. Bytes with a meaning in the event format are frequent. */
const written = fc
  .array(fc.oneof({ weight: 3, arbitrary: fc.constantFrom(10, 13, 32, 58, 100) }, fc.integer({ min: 0, max: 255 })), { maxLength: 300 })
  .map((bytes) => Buffer.from(bytes))
const cuts = fc.array(fc.nat(), { maxLength: 20 })

describe('runner events', () => {
  it('carry every byte, however the log is read and the network splits', () => {
    fc.assert(
      fc.property(written, cuts, cuts, (bytes, readCuts, networkCuts) => {
        const writer = new EventWriter()
        const sent = [...chunks(bytes, readCuts).map((chunk) => writer.add(chunk)), writer.rest(), Buffer.from(event('complete', {}))]
        const whole = bytes.length === 0 || bytes.at(-1) === newline ? bytes : Buffer.concat([bytes, Buffer.from('\n')])
        const { output, last } = received(chunks(Buffer.concat(sent), networkCuts))
        expect(output.equals(whole)).toBe(true)
        expect(last).toBe('complete')
      }),
      { numRuns: 2_000 },
    )
  })

  it.each([
    ['whole', ['one\r\n\r\n']],
    ['in two reads', ['one\r', '\n\r', '\n']],
  ])('have one data line for a line that ends with CRLF, read %s', (_how, reads) => {
    const writer = new EventWriter()
    const sent = Buffer.concat(reads.map((text) => writer.add(Buffer.from(text))))
    expect(sent.toString().match(/^data: .*$/gm)).toEqual(['data: one', 'data: '])
    expect(received([sent]).output.toString()).toBe('one\r\n\r\n')
  })

  it('have one data line for a long line that ends with CRLF, whose parts are sent as they arrive', () => {
    const writer = new EventWriter()
    const sent = Buffer.concat([`${'x'.repeat(100_000)}\r`, '\n'].map((text) => writer.add(Buffer.from(text))))
    expect(sent.toString().match(/^data: /gm)).toHaveLength(1)
    expect(received([sent]).output.toString()).toBe(`${'x'.repeat(100_000)}\r\n`)
  })

  it('carry pings, which add nothing to the output', () => {
    const writer = new EventWriter()
    const parts = ['one\ntw', 'o\n'].map((text) => writer.add(Buffer.from(text)))
    expect(writer.isBetweenEvents).toBe(true)
    expect(received([Buffer.from(ping), ...parts, Buffer.from(ping)]).output.toString()).toBe('one\ntwo\n')
  })

  it('carry a line of a megabyte in parts, and nothing else in between', () => {
    const writer = new EventWriter()
    const part = Buffer.alloc(100_000, 'x')
    const sent = Array.from({ length: 10 }, () => writer.add(part))
    expect(sent.every((bytes) => bytes.length > 0)).toBe(true)
    expect(writer.isBetweenEvents).toBe(false)
    expect(received([...sent, writer.add(Buffer.from('\n'))]).output.length).toBe(1_000_001)
    expect(writer.isBetweenEvents).toBe(true)
  })

  it.each([
    ['CRLF line ends', 'data: one\r\n\r\nevent: error\r\ndata: {"error":"no"}\r\n\r\n', 'one\n', 'error'],
    ['no space after the colon', 'data:one\n\n', 'one\n', undefined],
    ['two data lines', 'data: one\ndata: two\n\n', 'one\ntwo\n', undefined],
    ['an event without its end', 'data: one\n', '', undefined],
    ['an empty line of output', 'data: \n\n', '\n', undefined],
    ['comments, ids and unknown fields', ': x\nid: 7\nretry: 1\nfoo\n\ndata: one\n\n', 'one\n', undefined],
    ['a named message', 'event: message\ndata: one\n\n', 'one\n', undefined],
    ['a long line of a named message', `event: message\ndata: ${'x'.repeat(200_000)}\n\n`, `${'x'.repeat(200_000)}\n`, undefined],
    [
      'many lines of a named message',
      `event: message\n${`data: ${'x'.repeat(999)}\n`.repeat(200)}\n`,
      `${'x'.repeat(999)}\n`.repeat(200),
      undefined,
    ],
    ['a byte order mark', '\ufeffdata: one\n\ndata: \ufefftwo\n\n', 'one\n\ufefftwo\n', undefined],
    ['a byte order mark before a long line', `\ufeffdata: ${'x'.repeat(200_000)}\n\n`, `${'x'.repeat(200_000)}\n`, undefined],
    ['CR line ends, also at the end', 'data: one\r\revent: complete\rdata: {}\r\r', 'one\n', 'complete'],
    ['line ends of all kinds in one event', 'data: one\rdata: two\r\ndata: three\n\r', 'one\ntwo\nthree\n', undefined],
    ['many empty lines of data', `${'data:\n'.repeat(20_000)}\n`, '\n'.repeat(20_000), undefined],
    ['an endless comment', `:${'x'.repeat(200_000)}\n\ndata: one\n\n`, 'one\n', undefined],
    ['an endless event of another name', `event: other\ndata: ${'x'.repeat(200_000)}\ndata: y\n\ndata: one\n\n`, 'one\n', undefined],
  ])('are read with %s', (_what, text, output, last) => {
    const bytes = Buffer.from(text)
    for (const size of [1, 7, bytes.length]) {
      const cut = Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) => bytes.subarray(index * size, (index + 1) * size))
      const seen = received(cut)
      expect([seen.output.toString(), seen.last]).toEqual([output, last])
    }
  })

  it.each([
    ['a line without an end', 'x'.repeat(65_536), 65_536],
    ['empty lines of data without an empty line', 'data:\n'.repeat(10_000), 10_000],
    ['empty lines of data that a carriage return joins', 'data:\n: carriage return\n'.repeat(3_000), 3_000],
  ])('are passed on as they come, so that a runner cannot fill the memory: %s', (_what, text, outputBytes) => {
    const reader = new EventReader()
    reader.add(Buffer.from('data: '))
    const chunk = Buffer.from(text)
    let kept = 0
    for (let index = 0; index < 50; index++) {
      kept += outputBytes
      for (const news of reader.add(chunk)) if (news.is === 'output') kept -= news.bytes.length
      expect(kept).toBeLessThanOrEqual(65_536)
    }
  })

  it('carry an error message, shortened to a limit', () => {
    const [news] = new EventReader().add(Buffer.from(`event: error\ndata: ${JSON.stringify({ error: 'x'.repeat(10_000) })}\n\n`))
    expect(news).toEqual({ is: 'error', message: 'x'.repeat(2_000) })
    expect(new EventReader().add(Buffer.from('event: error\ndata: nonsense\n\n'))).toEqual([{ is: 'error', message: 'nonsense' }])
  })
})
