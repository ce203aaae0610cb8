import { appendFileSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { LogReader, type Source } from '../../../../src/agents/stream/reader.ts'
import type { Progress } from '../../../../src/core/ports/agents.ts'

let folder: string
let path: string
const readers: LogReader[] = []

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ebb-reader-'))
  path = join(folder, 'a.log')
  writeFileSync(path, '')
})

afterEach(() => {
  for (const reader of readers.splice(0)) reader.end()
  rmSync(folder, { recursive: true })
})

function open(more: Partial<Source> = {}): LogReader {
  const reader = new LogReader({
    agentId: 'agent',
    stream: 'stdout',
    path,
    offset: 0,
    limitBytes: 1_000_000_000,
    limitMessages: 1_000_000,
    parse: (line) => ({ messages: [{ type: 'response', content: line }] }),
    ...more,
  })
  readers.push(reader)
  return reader
}

/** Everything up to the end of what was written so far. */
function readAll(reader: LogReader): readonly Progress[] {
  const all: Progress[] = []
  for (let next = reader.read(); next; next = reader.read()) if (next !== 'more') all.push(next)
  return all
}

const contents = (all: readonly Progress[]): readonly string[] => all.flatMap(({ messages }) => messages.map(({ content }) => content))
const notes = (all: readonly Progress[]): readonly string[] => contents(all).filter((text) => text.startsWith('Ebb reads no more'))
const ids = (all: readonly Progress[]): readonly string[] => all.flatMap(({ messages }) => messages.map(({ id }) => id))

it('a line is read when its end was written, and the place of the reading moves from line to line', () => {
  const reader = open()
  expect(reader.read()).toBeUndefined()
  appendFileSync(path, 'one\ntw')
  expect(reader.read()).toMatchObject({ position: { stream: 'stdout', from: 0, to: 4 }, messages: [{ content: 'one' }] })
  expect(readAll(reader)).toEqual([])
  appendFileSync(path, 'o\n')
  expect(reader.read()).toMatchObject({ position: { from: 4, to: 8 }, messages: [{ content: 'two' }] })
})

it('the last line without an end is read only after the writer is gone', () => {
  writeFileSync(path, 'one\nthe la')
  const reader = open()
  expect(contents(readAll(reader))).toEqual(['one'])
  appendFileSync(path, 'st')
  expect(readAll(reader)).toEqual([])
  expect(reader.isOver).toBe(false)
  reader.endOfWriting()
  const [last] = readAll(reader)
  expect(last).toMatchObject({ position: { from: 4, to: 12 }, messages: [{ content: 'the last' }] })
  expect(reader.isOver).toBe(true)
})

it('a log that ends with a newline has no empty line behind it', () => {
  writeFileSync(path, 'one\n\n')
  const reader = open()
  reader.endOfWriting()
  expect(contents(readAll(reader))).toEqual(['one', ''])
  expect(reader.isOver).toBe(true)
})

it('what is read twice from the same place has the same ids', () => {
  writeFileSync(path, 'one\ntwo\nthree\n')
  const all = ids(readAll(open()))
  expect(ids(readAll(open({ offset: 4 })))).toEqual(all.slice(1))
  expect(new Set(all).size).toBe(3)
})

it('the file may be moved while it is read', () => {
  writeFileSync(path, 'one\n')
  const reader = open()
  readAll(reader)
  renameSync(path, join(folder, 'moved.log'))
  appendFileSync(join(folder, 'moved.log'), 'two\n')
  expect(contents(readAll(reader))).toEqual(['two'])
})

it('a log that is not there has nothing to say, and is over when its writer is', () => {
  const reader = open({ path: join(folder, 'none.log') })
  expect(reader.read()).toBeUndefined()
  reader.endOfWriting()
  expect(reader.read()).toBeUndefined()
  expect(reader.isOver).toBe(true)
})

it('a chunk of nothing but newlines is not a quarter of a million messages at once', () => {
  writeFileSync(path, '\n'.repeat(20_000))
  const all = readAll(open())
  expect(Math.max(...all.map(({ messages }) => messages.length))).toBeLessThanOrEqual(4_000)
  expect(ids(all)).toHaveLength(20_000)
  expect(new Set(ids(all)).size).toBe(20_000)
})

it('more than the limit is not read, and that is said once, also to the next life', () => {
  writeFileSync(path, '0123\n5678\nabcdefgh\n')
  const all = readAll(open({ limitBytes: 12 }))
  expect(contents(all)).toEqual(['0123', '5678', 'ab', expect.stringContaining('more than 12 bytes')])
  expect(new Set(ids(all)).size).toBe(4)
  const saved = all.at(-1)?.position?.to ?? 0
  const next = open({ limitBytes: 12, offset: saved })
  next.endOfWriting()
  expect(readAll(next)).toEqual([])
  expect(next.isOver).toBe(true)
})

it('exactly the limit is not too much', () => {
  writeFileSync(path, '0123\n5678\n')
  const reader = open({ limitBytes: 10 })
  expect(contents(readAll(reader))).toEqual(['0123', '5678'])
  expect(reader.isTooMuch).toBe(false)
  const next = open({ limitBytes: 10, offset: 10 })
  expect(readAll(next)).toEqual([])
  appendFileSync(path, 'x')
  expect(notes(readAll(reader))).toHaveLength(1)
  expect(notes(readAll(next))).toHaveLength(1)
})

it('too much is known by the size, before the reading gets there', () => {
  writeFileSync(path, Buffer.alloc(1_000_000, 'x\n'))
  const reader = open({ limitBytes: 900_000 })
  reader.read()
  expect(reader.isTooMuch).toBe(true)
  expect(reader.isOver).toBe(false)
})

it('after the last message that an agent may have only that is said', () => {
  writeFileSync(path, 'one\ntwo\nthr')
  const reader = open({ limitMessages: 2 })
  readAll(reader)
  reader.enough()
  appendFileSync(path, 'ee\nfour\n')
  const all = readAll(reader)
  expect(contents(all)).toEqual(['thr', expect.stringContaining('more than 2 messages')])
  expect(reader.isOver).toBe(true)
  const next = open({ limitMessages: 2, offset: all.at(-1)?.position?.to ?? 0 })
  next.endOfWriting()
  expect(readAll(next)).toEqual([])
})
