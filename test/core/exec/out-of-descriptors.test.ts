import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { openHost } from '../../../src/host/host.ts'
import { procTable } from '../../../src/host/processes/proc.ts'
import { nodeProgram, root } from '../../support/home.ts'

/** Asked in a process that cannot open one more file: what it cannot see it must not call dead or absent (G4). */
function askWithoutDescriptors(question: string): string {
  const script = `
    import { openSync } from 'node:fs'
    const { openHost } = await import('${join(root, 'src/host/host.ts')}')
    const { procTable } = await import('${join(root, 'src/host/processes/proc.ts')}')
    const { mountAt } = await import('${join(root, 'src/host/path.ts')}')
    const { realEffects } = await import('${join(root, 'src/host/effects.ts')}')
    const { firstOutput } = await import('${join(root, 'src/host/probe.ts')}')
    const host = openHost('here', procTable)
    try { for (;;) openSync('/dev/null', 'r') } catch {}
    const answer = await (async () => ${question})().catch((error) => error.code)
    process.stdout.write(String(answer))`
  const words = ['-c', 'ulimit -n 64; exec "$0" --no-warnings --input-type=module -e "$1"', nodeProgram, script]
  return execFileSync('/bin/sh', words, { encoding: 'utf8' })
}

describe('without a free descriptor', () => {
  it('a living supervisor is not taken for dead', () => {
    const { incarnationId } = openHost('here', procTable)
    expect(askWithoutDescriptors(`host.vitality('${incarnationId}')`)).toBe('unknown')
  })

  it('a process that cannot be looked at is not taken for gone', () => {
    expect(askWithoutDescriptors(`procTable.find(${process.pid})?.pid`)).toBe('EMFILE')
  })

  it('a scan that could not look says so', () => {
    expect(askWithoutDescriptors('(await procTable.snapshot()).length')).toBe('EMFILE')
  })

  it('a place where a file system may be mounted is not taken for free of them (G10)', () => {
    expect(askWithoutDescriptors("mountAt('/tmp')")).toBe('EMFILE')
  })

  it.each([3, 4])('a command with %i streams is not started, and that is all that happens', (streams) => {
    const stdio = JSON.stringify(Array.from({ length: streams }, () => 'pipe'))
    const command = `{ program: '/bin/true', argv: ['true'], env: {}, stdio: ${stdio} }`
    expect(askWithoutDescriptors(`realEffects.spawn(${command})`)).toBe('EMFILE')
  })

  it('a program does not say its version, and that is all that happens', () => {
    expect(askWithoutDescriptors("firstOutput(['/bin/echo', 'one'], {})")).toBe('undefined')
  })
})
