import { chmodSync, chownSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import { type Ended, ebb, spoil, temporaryHome } from '../../support/home.ts'
import { readOnly, tmpfs } from '../../support/mounts.ts'
import { needs } from '../../support/real.ts'

/** Bad input to `ebb exec`: it prints one sentence, exits with the code for the kind of error, and makes nothing. */

/** A home that does not exist yet, so that a test can check that none was made. */
const freshHome = (): string => join(temporaryHome(), 'home')

function expectRefused(ended: Ended, code: number, sentence: RegExp): void {
  expect(ended).toMatchObject({ code, signal: null, stdout: Buffer.from('') })
  expect(ended.stderr).toMatch(/^ebb: [^\n]*\n$/)
  expect(ended.stderr).toMatch(sentence)
}

describe('a command that cannot start', () => {
  it('exits with 127 when the program does not exist, by name or by path', async () => {
    const home = freshHome()
    expectRefused(await ebb(['exec', '--', 'no-such-command'], { home }), 127, /no-such-command was not found on the PATH/)
    expectRefused(await ebb(['exec', '--', './no-such-file'], { home }), 127, /no-such-file was not found/)
    expectRefused(await ebb(['exec', '--', ''], { home }), 127, /"" was not found/)
    expect(existsSync(home)).toBe(false)
  })

  it('exits with 126 when the file is not executable or not a program', async () => {
    const home = freshHome()
    const file = join(temporaryHome(), 'plain')
    writeFileSync(file, '#!/bin/sh\n', { mode: 0o644 })
    expectRefused(await ebb(['exec', '--', file], { home }), 126, /plain exists but cannot be executed/)
    expectRefused(await ebb(['exec', '--', '/'], { home }), 126, /cannot be executed/)
    expect(existsSync(home)).toBe(false)
  })

  it('exits with 125 when the working directory is gone', async () => {
    const home = freshHome()
    const through = ['sh', '-c', 'cd "$(mktemp -d)" && rmdir "$PWD" && exec "$@"', 'sh']
    const ended = await ebb(['exec', '--', 'true'], { home, through })
    // The shell that finds the pinned Node prints its own warning.
    const stderr = ended.stderr.replace(/^sh: .*getcwd.*\n/, '')
    expectRefused({ ...ended, stderr }, 125, /working directory does not exist any more/)
    expect(existsSync(home)).toBe(false)
  })
})

describe('wrong usage', () => {
  const wrong: readonly (readonly [words: readonly string[], sentence: RegExp])[] = [
    [['exec'], /no command to run/],
    [['exec', '--'], /no command to run/],
    [['exec', '--no-such-flag', '--', 'true'], /no option --no-such-flag/],
    [['exec', '-x', '--', 'true'], /no option -x/],
    [['exec', '--grace'], /--grace needs a value/],
    [['exec', '--report', '--', 'true'], /--report needs a value/],
    [['exec', '--home', '--', 'true'], /--home needs a value/],
    [['status', '--config', '--'], /--config needs a value/],
    [['exec', '--grace', '5', '--', 'true'], /--grace must be a duration .* not "5"/],
    [['exec', '--timeout', 'soon', '--', 'true'], /--timeout must be a duration .* not "soon"/],
    [['exec', '--timeout=-5s', '--', 'true'], /--timeout must be a duration/],
    [['exec', '--containment', 'wish', '--', 'true'], /--containment must be one of .* not "wish"/],
    [['exec', '--limit-memory', 'much', '--', 'true'], /--limit-memory must be a size/],
    [['no-such-command'], /no command "no-such-command"/],
    [['status', 'please'], /does not take "please"/],
  ]

  it('exits with 2, names the error, and makes nothing', async () => {
    const home = freshHome()
    const ends = await Promise.all(wrong.map(([words]) => ebb(words, { home })))
    for (const [index, [, sentence]] of wrong.entries()) expectRefused(ends[index] as Ended, 2, sentence)
    expect(existsSync(home)).toBe(false)
  })

  it('is refused in a variable', async () => {
    const home = freshHome()
    expectRefused(await ebb(['exec', '--', 'true'], { home, env: { EBB_GRACE: 'long' } }), 2, /EBB_GRACE must be a duration/)
    expect(existsSync(home)).toBe(false)
  })

  it('is refused in the configuration file', async () => {
    const home = temporaryHome()
    const file = join(home, 'ebb.config.json')
    writeFileSync(file, '{"graze": "5s"}')
    expectRefused(
      await ebb(['exec', '--', 'true'], { home }),
      2,
      /no setting "graze" in .*ebb\.config\.json; docs\/reference\/configuration\.md lists them/,
    )
    writeFileSync(file, '{"grace": "5"}')
    expectRefused(await ebb(['exec', '--', 'true'], { home }), 2, /"grace" in .* must be a duration/)
    for (const text of ['grace = 5s', '{\n  grace: 5s\n}\n', '{"grace": "5s",\n}']) {
      writeFileSync(file, text)
      expectRefused(await ebb(['exec', '--', 'true'], { home }), 2, /cannot be read: .*JSON/)
    }
    expect(readdirSync(home)).toEqual(['ebb.config.json'])
  })
})

describe('a home that cannot be used', () => {
  it('is refused with 125 when it is a file', async () => {
    const home = freshHome()
    writeFileSync(home, 'mine')
    expectRefused(await ebb(['exec', '--', 'true'], { home }), 125, /The home .* cannot be used \(it is not a directory\)/)
    expect(readFileSync(home, 'utf8')).toBe('mine')
  })

  describe('with root', () => {
    needs('root')

    it('is refused with 125 when it is not writable', async () => {
      using disk = tmpfs(temporaryHome(), '1m,ro')
      const home = disk.point
      expectRefused(await ebb(['exec', '--', 'true'], { home }), 125, /The home .* cannot be used .*read-only/i)
    })

    it('is refused with 125 when it belongs to somebody else', async () => {
      const home = temporaryHome()
      chownSync(home, 65_534, 65_534)
      expectRefused(await ebb(['exec', '--', 'true'], { home }), 125, /The home .* cannot be used .*belongs to another user/)
      expect(readdirSync(home)).toEqual([])
    })

    it('is refused with 125 when there is no space left', async () => {
      using disk = tmpfs(temporaryHome(), '4k')
      const home = disk.point
      writeFileSync(join(home, 'filler'), '')
      try {
        writeFileSync(join(home, 'filler'), Buffer.alloc(8_192))
      } catch {
        // The disk is full now, as the test needs it.
      }
      expectRefused(await ebb(['exec', '--', 'true'], { home }), 125, /(space|full)/)
    })
  })

  it('gets mode 0700 when other users had access', async () => {
    const home = temporaryHome()
    chmodSync(home, 0o755)
    expect(await ebb(['exec', '--', 'true'], { home })).toMatchObject({ code: 0, stderr: '' })
    expect(statSync(home).mode & 0o777).toBe(0o700)
    const modes = readdirSync(home).map((name) => [name, (statSync(join(home, name)).mode & 0o077).toString(8)])
    expect(modes.filter(([, mode]) => mode !== '0')).toEqual([])
  })
})

describe('a database that cannot be used', () => {
  describe('with root', () => {
    needs('root')

    it('is reported with the reason when it is read-only', async () => {
      const home = temporaryHome()
      expect(await ebb(['exec', '--', 'true'], { home })).toMatchObject({ code: 0 })
      using _ = readOnly(join(home, 'ebb.db'))
      expectRefused(
        await ebb(['exec', '--', 'true'], { home }),
        125,
        /database cannot be written \(attempt to write a readonly database\); check/,
      )
    })
  })

  it('is renamed and reported when it is corrupt, and the next run starts with a new one', async () => {
    const home = temporaryHome()
    const garbage = Buffer.alloc(8_192, 'this is not a database ')
    writeFileSync(join(home, 'ebb.db'), garbage)
    const ended = await ebb(['exec', '--', 'true'], { home })
    expectRefused(ended, 125, /is not readable .* kept as /)
    const aside = /kept as (\S+?)\.? /.exec(ended.stderr)?.[1] ?? ''
    expect(readFileSync(aside).equals(garbage)).toBe(true)
    expect(await ebb(['exec', '--', 'sh', '-c', 'exit 6'], { home })).toMatchObject({ code: 6, stderr: '' })
  })

  it('is refused and not changed when a newer version wrote it', async () => {
    const home = spoil(temporaryHome())
    const file = join(home, 'ebb.db')
    const db = new DatabaseSync(file)
    db.exec('CREATE TABLE from_the_future (x); PRAGMA user_version = 99')
    db.close()
    const before = readFileSync(file)
    expectRefused(await ebb(['exec', '--', 'true'], { home }), 125, /newer Ebb \(schema 99/)
    expect(readFileSync(file).equals(before)).toBe(true)
  })
})

describe('a report that cannot be written', () => {
  it('is an error with 125, after the run was cleaned up', async () => {
    const ended = await ebb(['exec', '--report', '/no/such/folder/report.json', '--', 'true'], { home: temporaryHome() })
    expectRefused(ended, 125, /The report could not be written to \/no\/such\/folder\/report\.json/)
  })
})
