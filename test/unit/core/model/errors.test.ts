import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import {
  advised,
  EbbError,
  type ErrorCode,
  errno,
  errorTable,
  isEbbError,
  notReleased,
  sentence,
} from '../../../../src/core/model/errors.ts'
import type { Report } from '../../../../src/core/model/report.ts'

const sources = readdirSync(join(import.meta.dirname, '..', '..', '..', '..', 'src'), { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
  .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'utf8'))
  .join('\n')

describe('error table', () => {
  it.each(Object.entries(errorTable))('%s has an exit code and an HTTP status that mean failure', (code, { exit, status }) => {
    expect(code).toMatch(/^[a-z]+(_[a-z]+)*$/)
    expect(exit).toBeGreaterThan(0)
    expect([1, 2, 3, 125, 126, 127]).toContain(exit)
    expect(status).toBeGreaterThanOrEqual(400)
    expect(status).toBeLessThan(600)
  })

  it('uses the exit codes of a shell for programs that cannot start', () => {
    expect(errorTable.program_not_found.exit).toBe(127)
    expect(errorTable.program_not_executable.exit).toBe(126)
    expect(errorTable.bad_usage.exit).toBe(2)
    expect(errorTable.not_released.exit).toBe(3)
  })

  it.each(Object.keys(errorTable))('%s is used in the source', (code) => {
    expect(sources.split(`'${code}'`).length).toBeGreaterThan(1)
  })
})

describe('notReleased', () => {
  it.each([
    [[], 'The agent a-1 could not be released. The reaper tries again; "ebb status" lists what is left.'],
    [
      ['log stdout: The disk is full.', 'the ledger has not recorded it'],
      'The agent a-1 could not be released: log stdout: The disk is full; the ledger has not recorded it. The reaper tries again; "ebb status" lists what is left.',
    ],
  ])('the errors of a report become whole sentences', (errors, message) => {
    const report: Report = {
      ...{ success: false, trigger: 'deleted', scope: { kind: 'agent', id: 'a-1' }, startedAt: '', duration: 0 },
      ...{ cleanedAgentsCount: 0, cleanedMessagesCount: 0, resources: [], errors, gaveUp: [] },
    }
    expect(notReleased(report)).toMatchObject({ code: 'not_released', message, details: report })
  })
})

describe('EbbError', () => {
  it('carries code, cause and details', () => {
    const cause = new Error('why')
    const details = [{ path: 'type', message: 'unknown provider' }]
    const error = new EbbError('invalid_request', 'It is unknown.', { cause, details })
    expect(error).toMatchObject({ name: 'EbbError', code: 'invalid_request', message: 'It is unknown.', cause, details })
    expect(isEbbError(error)).toBe(true)
    expect(isEbbError(error, 'invalid_request')).toBe(true)
    expect(isEbbError(error, 'bad_usage' satisfies ErrorCode)).toBe(false)
    expect(isEbbError(cause)).toBe(false)
  })

  it('has details of the type that belongs to its code', () => {
    const error: unknown = new EbbError('invalid_id', 'No.', { details: [{ path: 'id', message: 'It is malformed.' }] })
    expect(isEbbError(error, 'invalid_id') && error.details?.[0]?.path).toBe('id')
    // @ts-expect-error: the details of this code are a list of problems, not a report.
    expect(isEbbError(error, 'invalid_id') && error.details?.success).toBeUndefined()
    // @ts-expect-error: the details of this code are a report.
    expect(new EbbError('not_released', 'No.', { details: [] })).toBeInstanceOf(EbbError)
    // @ts-expect-error: errors with this code have no details.
    expect(new EbbError('ledger_busy', 'No.', { details: [] })).toBeInstanceOf(EbbError)
  })

  it('has no cause property without a cause', () => {
    expect(Object.hasOwn(new EbbError('bad_usage', 'No.'), 'cause')).toBe(false)
  })

  it('sentence and errno accept any thrown value', () => {
    expect([sentence(new Error('a')), sentence('b'), sentence(undefined), sentence({})]).toEqual(['a', 'b', 'undefined', '[object Object]'])
    expect([errno(Object.assign(new Error('x'), { code: 'ENOENT' })), errno(new Error('x')), errno({ code: 'ENOENT' })]).toEqual([
      'ENOENT',
      undefined,
      undefined,
    ])
    expect(errno(Object.assign(new Error('x'), { code: 5 }))).toBeUndefined()
  })
})

describe('advised', () => {
  it.each([
    ['EPERM', /^EPERM: no; allow Ebb to write there/],
    ['EROFS', /; make that file system writable$/],
    ['ENOSPC', /; free some space there$/],
    ['ENOENT', /^ENOENT: no$/],
  ])('adds advice for errors that the user can fix: %s', (code, says) => {
    expect(advised(Object.assign(new Error(`${code}: no`), { code }))).toMatch(says)
  })

  it('adds no advice to other errors', () => {
    expect(advised(new Error('Something else.'))).toBe('Something else.')
    expect(advised('a word')).toBe('a word')
  })
})
