import { appendFileSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { LogLines, LogQuery } from '../../../src/core/ports/archives.ts'
import { readLog } from '../../../src/kinds/log/read-lines.ts'
import { temporaryHome } from '../../support/home.ts'

/** `readLog` reads the lines of a log, live or archived. */

interface Place {
  readonly path: string
  readonly archive: string
  read(query?: Partial<LogQuery>): Promise<LogLines>
}

function place(): Place {
  const folder = temporaryHome()
  const [path, archive] = [join(folder, 'live'), join(folder, 'archived')]
  return { path, archive, read: (query = {}) => readLog({ path, archive, maxLines: 1_000, maxBytes: 1_000_000, ...query }) }
}

/** The bytes that this process has read so far (proc_pid_io(5)). */
const bytesRead = (): number => Number(/^rchar: (\d+)/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1])

const numbers = (count: number): string => Array.from({ length: count }, (_, index) => `line ${index}\n`).join('')

describe('readLog', () => {
  it('continues at the same position while the log is live, moved and compressed', async () => {
    const { path, archive, read } = place()
    writeFileSync(path, 'one\ntwo\nthr')
    const first = await read()
    expect(first).toEqual({ lines: ['one', 'two'], next: 8 })
    expect(await read({ since: first.next })).toEqual({ lines: [], next: 8 })
    appendFileSync(path, 'ee\nfour\n')
    const second = await read({ since: first.next })
    expect(second).toEqual({ lines: ['three', 'four'], next: 19 })
    appendFileSync(path, 'fünf\nno end')
    renameSync(path, archive)
    expect(await read({ since: second.next })).toEqual({ lines: ['fünf', 'no end'], next: 31 })
    const content = readFileSync(archive)
    for (const [ending, compressed] of [
      ['.zst', zstdCompressSync(content)],
      ['.gz', gzipSync(content)],
    ] as const) {
      writeFileSync(`${archive}${ending}`, compressed)
      rmSync(archive, { force: true })
      expect(await read({ since: second.next })).toEqual({ lines: ['fünf', 'no end'], next: 31 })
      expect(await read({ tail: 3 })).toEqual({ lines: ['four', 'fünf', 'no end'], next: 31 })
      expect(await read({ since: 31 })).toEqual({ lines: [], next: 31 })
      rmSync(`${archive}${ending}`)
    }
    expect(await read({ since: 31 })).toEqual({ lines: [], next: 31 })
  })

  it('finds the last lines of a large log from its end', async () => {
    const { path, read } = place()
    writeFileSync(path, `${numbers(200_000)}not complete`)
    const before = bytesRead()
    expect((await read({ tail: 2 })).lines).toEqual(['line 199998', 'line 199999'])
    expect(bytesRead() - before).toBeLessThan(1_000_000)
    const { lines, next } = await read({ tail: 5_000 })
    expect([lines.length, lines[0], lines.at(-1), next]).toEqual([1_000, 'line 199000', 'line 199999', numbers(200_000).length])
    // A read returns at most `maxBytes`, and no partial line.
    expect((await read({ tail: 1_000, maxBytes: 30 })).lines).toEqual(['line 199998', 'line 199999'])
  })

  it('returns at most maxLines and maxBytes, and the rest with the next call', async () => {
    const { path, read } = place()
    writeFileSync(path, numbers(10))
    const first = await read({ maxLines: 4 })
    expect([first.lines.length, (await read({ since: first.next, maxBytes: 13 })).lines]).toEqual([4, ['line 4', 'line 5']])
  })

  it('cuts a line that is longer than maxBytes, and continues after it', async () => {
    const { path, read } = place()
    writeFileSync(path, `${'x'.repeat(500_000)}\nafter\n`)
    const first = await read({ maxBytes: 10 })
    expect(first).toEqual({ lines: ['xxxxxxxxxx…'], next: 500_001 })
    expect((await read({ since: first.next, maxBytes: 10 })).lines).toEqual(['after'])
    expect((await read({ tail: 5, maxBytes: 10 })).lines).toEqual(['after'])
  })

  it('finds the last lines before a long incomplete line, and the position where that begins', async () => {
    const { path, read } = place()
    writeFileSync(path, `one\ntwo\n${'y'.repeat(500_000)}`)
    expect(await read({ tail: 1, maxBytes: 100 })).toEqual({ lines: ['two'], next: 8 })
  })

  it('returns no lines for a position beyond the end, and the end as next position', async () => {
    const { path, read } = place()
    writeFileSync(path, 'one\n')
    expect(await read({ since: 1_000 })).toEqual({ lines: [], next: 4 })
  })

  it('does not read through a symlink', async () => {
    const { path, read } = place()
    symlinkSync('/etc/passwd', path)
    await expect(read()).rejects.toThrow('ELOOP')
  })

  it('throws for a broken archive', async () => {
    const { archive, read } = place()
    const whole = zstdCompressSync(Buffer.from(numbers(10_000)))
    writeFileSync(`${archive}.zst`, whole.subarray(0, whole.length / 2))
    await expect(read({ maxLines: 100_000 })).rejects.toThrow()
    writeFileSync(`${archive}.zst`, 'no zstd at all')
    await expect(read()).rejects.toThrow()
  })

  it('returns every line once when it is read in pages of any size', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.string({ unit: fc.constantFrom('a', 'ü', '€', ' ', '\0'), maxLength: 40 }), { maxLength: 40 }),
        fc.integer({ min: 1, max: 7 }),
        fc.integer({ min: 130, max: 200 }),
        fc.boolean(),
        async (lines, maxLines, maxBytes, isCompressed) => {
          const { archive, read } = place()
          const content = lines.map((line) => `${line}\n`).join('')
          if (isCompressed) writeFileSync(`${archive}.zst`, zstdCompressSync(content))
          else writeFileSync(archive, content)
          const all: string[] = []
          for (let since = 0; ; ) {
            const page = await read({ since, maxLines, maxBytes })
            if (page.lines.length === 0) break
            all.push(...page.lines)
            since = page.next
          }
          expect(all).toEqual(lines)
        },
      ),
      { numRuns: 40 },
    )
  })
})
