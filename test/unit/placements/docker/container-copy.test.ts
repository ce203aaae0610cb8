import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { realEffects } from '../../../../src/host/effects.ts'
import { type Copied, copyOutput, overlapOf } from '../../../../src/placements/docker/copy.ts'
import type { DockerQueries, OutputPiece } from '../../../../src/placements/docker/ports.ts'
import { temporaryHome } from '../../../support/home.ts'

/** The streams of the last requests to the daemon. */
const requestedStreams: string[] = []

/** Copies the daemon's log `daemons`, sent in pieces of seven bytes, to a log that already contains `had`. */
async function copied(had: string, daemons: string, mostBytes = 1_000): Promise<{ readonly log: string; readonly copied: Copied }> {
  const folder = temporaryHome()
  mkdirSync(folder, { recursive: true })
  const paths = { stdout: join(folder, 'out'), stderr: join(folder, 'err') }
  writeFileSync(paths.stdout, had)
  writeFileSync(paths.stderr, '')
  async function* output(_id: string, _follows: boolean, _signal: unknown, streams = ['stdout', 'stderr']): AsyncIterable<OutputPiece> {
    requestedStreams.push(...streams)
    if (!streams.includes('stdout')) return
    for (let at = 0; at < daemons.length; at += 7) yield { stream: 'stdout', bytes: Buffer.from(daemons.slice(at, at + 7)) }
  }
  requestedStreams.length = 0
  const queries = { output } as unknown as DockerQueries
  const how = { follows: false, signal: new AbortController().signal, mostBytes }
  const result = await copyOutput({ effects: realEffects, queries }, 'id', paths, how)
  return { log: readFileSync(paths.stdout, 'utf8'), copied: result }
}

const fine = { isShortened: false, isCut: false }
const shortened = { isShortened: true, isCut: false }

describe('docker: copying the output', () => {
  it('adds what is missing, and nothing when nothing is', async () => {
    expect(await copied('', 'line 1\nline 2\n')).toEqual({ log: 'line 1\nline 2\n', copied: fine })
    expect(await copied('line 1\nli', 'line 1\nline 2\n')).toEqual({ log: 'line 1\nline 2\n', copied: fine })
    expect(await copied('line 1\nline 2\n', 'line 1\nline 2\n')).toEqual({ log: 'line 1\nline 2\n', copied: fine })
  })

  it("reports that the daemon's log was shortened, and loses nothing that came after: emptied, restarted or cut at its start", async () => {
    expect(await copied('line 1\nline 2\n', '')).toEqual({ log: 'line 1\nline 2\n', copied: shortened })
    expect(await copied('line 1\nline 2\n', 'new 1\n')).toEqual({ log: 'line 1\nline 2\nnew 1\n', copied: shortened })
    const many = Array.from({ length: 9 }, (_, index) => `new ${index}\n`).join('')
    expect(await copied('line 1\nline 2\n', many)).toEqual({ log: `line 1\nline 2\n${many}`, copied: shortened })
    const whole = 'line 1\nline 2\nline 3\nline 4\n'
    expect(await copied('line 1\nline 2\nline 3\n', 'line 2\nline 3\nline 4\n')).toEqual({ log: whole, copied: shortened })
    expect(await copied(whole, 'line 4\n')).toEqual({ log: whole, copied: shortened })
  })

  it('keeps one byte more than the limit, and reports that there was more', async () => {
    expect(await copied('', '0123456789', 4)).toEqual({ log: '01234', copied: { isShortened: false, isCut: true } })
    expect(await copied('01234', '0123456789', 4)).toEqual({ log: '01234', copied: { isShortened: false, isCut: true } })
    // The log of stdout has reached its limit, so only stderr is requested.
    expect(requestedStreams).toEqual(['stderr'])
    expect(await copied('', '0123', 4)).toEqual({ log: '0123', copied: fine })
  })
})

describe('docker: the overlap between the end of one text and the start of another', () => {
  it.each([
    ['abc', 'cde', 1],
    ['abc', 'abc', 3],
    ['abc', 'abcd', 3],
    ['aab', 'aabaab', 3],
    ['xyxy', 'xyz', 2],
    ['abc', 'xyz', 0],
    ['', 'abc', 0],
    ['abc', '', 0],
  ])('of %s and %s: %i bytes', (tail, head, bytes) => {
    expect(overlapOf(Buffer.from(tail), Buffer.from(head))).toBe(bytes)
  })
})
