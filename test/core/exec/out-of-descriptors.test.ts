import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { openHost } from '../../../src/host/host.ts'
import { procTable } from '../../../src/host/processes/proc.ts'
import { nodeProgram, root } from '../../support/home.ts'

/**
 * Evaluates an expression in a process that has no free descriptor. What the process cannot observe must not be reported as dead or absent
 * (G4).
 */
function evaluateWithoutDescriptors(expression: string): string {
  const script = `
    import { openSync } from 'node:fs'
    const { openHost } = await import('${join(root, 'src/host/host.ts')}')
    const { procTable } = await import('${join(root, 'src/host/processes/proc.ts')}')
    const { mountAt } = await import('${join(root, 'src/host/path.ts')}')
    const { realEffects } = await import('${join(root, 'src/host/effects.ts')}')
    const host = openHost('here', procTable)
    try { for (;;) openSync('/dev/null', 'r') } catch {}
    const answer = await (async () => ${expression})().catch((error) => error.code)
    process.stdout.write(String(answer))`
  const words = ['-c', 'ulimit -n 64; exec "$0" --no-warnings --input-type=module -e "$1"', nodeProgram, script]
  return execFileSync('/bin/sh', words, { encoding: 'utf8' })
}

describe('without a free descriptor', () => {
  it('the vitality of a living supervisor is unknown, not dead', () => {
    const { incarnationId } = openHost('here', procTable)
    expect(evaluateWithoutDescriptors(`host.vitality('${incarnationId}')`)).toBe('unknown')
  })

  it('find of a process throws EMFILE, and does not report it as gone', () => {
    expect(evaluateWithoutDescriptors(`procTable.find(${process.pid})?.pid`)).toBe('EMFILE')
  })

  it('a scan throws EMFILE', () => {
    expect(evaluateWithoutDescriptors('(await procTable.snapshot()).length')).toBe('EMFILE')
  })

  it('mountAt throws EMFILE, and does not report that nothing is mounted (G10)', () => {
    expect(evaluateWithoutDescriptors("mountAt('/tmp')")).toBe('EMFILE')
  })

  it.each([3, 4])('spawn of a command with %i streams rejects with EMFILE', (streams) => {
    const stdio = JSON.stringify(Array.from({ length: streams }, () => 'pipe'))
    const command = `{ program: '/bin/true', argv: ['true'], env: {}, stdio: ${stdio} }`
    expect(evaluateWithoutDescriptors(`realEffects.spawn(${command})`)).toBe('EMFILE')
  })
})
