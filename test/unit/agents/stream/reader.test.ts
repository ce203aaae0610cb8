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

/** Reads until the current end of the log. */
function readAll(reader: LogReader): readonly Progress[] {
  const all: Progress[] = []
  for (let next = reader.read(); next; next = reader.read()) if (next !== 'more') all.push(next)
  return all
}

const contents = (all: readonly Progress[]): readonly string[] => all.flatMap(({ messages }) => messages.map(({ content }) => content))
const notes = (all: readonly Progress[]): readonly string[] => contents(all).filter((text) => text.startsWith('Ebb reads no more'))
const ids = (all: readonly Progress[]): readonly string[] => all.flatMap(({ messages }) => messages.map(({ id }) => id))

it('reader: a line is read once its newline is written, and the position moves by whole lines', () => {
  const reader = open()
  expect(reader.read()).toBeUndefined()
  appendFileSync(path, 'one\ntw')
  expect(reader.read()).toMatchObject({ position: { stream: 'stdout', from: 0, to: 4 }, messages: [{ content: 'one' }] })
  expect(readAll(reader)).toEqual([])
  appendFileSync(path, 'o\n')
  expect(reader.read()).toMatchObject({ position: { from: 4, to: 8 }, messages: [{ content: 'two' }] })
})

it('reader: a last line without newline is read only after the writer is gone', () => {
  writeFileSync(path, 'one\nthe la')
  const reader = open()
  expect(contents(readAll(reader))).toEqual(['one'])
  appendFileSync(path, 'st')
  expect(readAll(reader)).toEqual([])
  expect(reader.isFinished).toBe(false)
  reader.endOfWriting()
  const [last] = readAll(reader)
  expect(last).toMatchObject({ position: { from: 4, to: 12 }, messages: [{ content: 'the last' }] })
  expect(reader.isFinished).toBe(true)
})

it('reader: a log that ends with a newline gives no extra empty line', () => {
  writeFileSync(path, 'one\n\n')
  const reader = open()
  reader.endOfWriting()
  expect(contents(readAll(reader))).toEqual(['one', ''])
  expect(reader.isFinished).toBe(true)
})

it('reader: reading the same lines again gives the same message ids', () => {
  writeFileSync(path, 'one\ntwo\nthree\n')
  const all = ids(readAll(open()))
  expect(ids(readAll(open({ offset: 4 })))).toEqual(all.slice(1))
  expect(new Set(all).size).toBe(3)
})

it('reader: continues when the log file is moved', () => {
  writeFileSync(path, 'one\n')
  const reader = open()
  readAll(reader)
  renameSync(path, join(folder, 'moved.log'))
  appendFileSync(join(folder, 'moved.log'), 'two\n')
  expect(contents(readAll(reader))).toEqual(['two'])
})

it('reader: a missing log gives nothing and is finished once the writer is gone', () => {
  const reader = open({ path: join(folder, 'none.log') })
  expect(reader.read()).toBeUndefined()
  reader.endOfWriting()
  expect(reader.read()).toBeUndefined()
  expect(reader.isFinished).toBe(true)
})

it('reader: a chunk of newlines only is returned in reads of at most 4,000 messages', () => {
  writeFileSync(path, '\n'.repeat(20_000))
  const all = readAll(open())
  expect(Math.max(...all.map(({ messages }) => messages.length))).toBeLessThanOrEqual(4_000)
  expect(ids(all)).toHaveLength(20_000)
  expect(new Set(ids(all)).size).toBe(20_000)
})

it('reader: stops at the byte limit and adds one message about it, also across a restart', () => {
  writeFileSync(path, '0123\n5678\nabcdefgh\n')
  const all = readAll(open({ limitBytes: 12 }))
  expect(contents(all)).toEqual(['0123', '5678', 'ab', expect.stringContaining('more than 12 bytes')])
  expect(new Set(ids(all)).size).toBe(4)
  const saved = all.at(-1)?.position?.to ?? 0
  const next = open({ limitBytes: 12, offset: saved })
  next.endOfWriting()
  expect(readAll(next)).toEqual([])
  expect(next.isFinished).toBe(true)
})

it('reader: a log of exactly the byte limit is not over the limit', () => {
  writeFileSync(path, '0123\n5678\n')
  const reader = open({ limitBytes: 10 })
  expect(contents(readAll(reader))).toEqual(['0123', '5678'])
  expect(reader.isOverLimit).toBe(false)
  const next = open({ limitBytes: 10, offset: 10 })
  expect(readAll(next)).toEqual([])
  appendFileSync(path, 'x')
  expect(notes(readAll(reader))).toHaveLength(1)
  expect(notes(readAll(next))).toHaveLength(1)
})

it('reader: a log over the limit is detected by its size, before reading reaches the limit', () => {
  writeFileSync(path, Buffer.alloc(1_000_000, 'x\n'))
  const reader = open({ limitBytes: 900_000 })
  reader.read()
  expect(reader.isOverLimit).toBe(true)
  expect(reader.isFinished).toBe(false)
})

it('reader: stops at the message limit after the current line and a message about it', () => {
  writeFileSync(path, 'one\ntwo\nthr')
  const reader = open({ limitMessages: 2 })
  readAll(reader)
  reader.stopAtMessageLimit()
  appendFileSync(path, 'ee\nfour\n')
  const all = readAll(reader)
  expect(contents(all)).toEqual(['thr', expect.stringContaining('more than 2 messages')])
  expect(reader.isFinished).toBe(true)
  const next = open({ limitMessages: 2, offset: all.at(-1)?.position?.to ?? 0 })
  next.endOfWriting()
  expect(readAll(next)).toEqual([])
})
