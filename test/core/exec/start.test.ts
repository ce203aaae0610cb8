import { dirname } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ebb, ebbProgram, temporaryHome } from '../../support/home.ts'

/** `bin/ebb` finds its files, however it is called. */

describe('bin/ebb', () => {
  it('starts when it is called by its bare name in its own folder', async () => {
    const run = await ebb(['exec', '--', 'true'], { home: temporaryHome(), through: ['sh'], program: 'ebb', cwd: dirname(ebbProgram) })
    expect(run).toMatchObject({ code: 0, stderr: '' })
  })

  it('does not change variables of the command, whatever their names', async () => {
    const names = ['s', 'd', 'n', 'm', 'i', 'f', 'v', 'node', 'root', 'line', 'path', 'found', 'from', 'file']
    const env = Object.fromEntries(names.map((name) => [name, `own ${name}`]))
    const run = await ebb(['exec', '--', 'env'], { home: temporaryHome(), env })
    const lines = run.stdout.toString().split('\n')
    expect(lines).toEqual(expect.arrayContaining(names.map((name) => `${name}=own ${name}`)))
    expect(lines.filter((line) => line.startsWith('ebb_'))).toEqual([])
  })

  it.each(['', '/nonexistent'])('prints nothing itself when the PATH is "%s"', async (path) => {
    const run = await ebb(['exec', '--', '/bin/echo', 'well'], { home: temporaryHome(), env: { PATH: path } })
    expect({ code: run.code, stdout: run.stdout.toString(), stderr: run.stderr }).toEqual({ code: 0, stdout: 'well\n', stderr: '' })
  })
})
