import { execFileSync } from 'node:child_process'
import { expect, it } from 'vitest'
import { ebbProgram, temporaryHome } from '../../support/home.ts'

/** The limit that carries a tree's brand, as the command sees it: set where it is free, and left alone where it is somebody's. */

const look = 'grep "Max resident set" /proc/self/limits'

/** The hard limits that the words say, in bytes. */
function limitsSaid(script: string): readonly string[] {
  const said = execFileSync('sh', ['-c', script], { encoding: 'utf8', env: { ...process.env, E: ebbProgram, EBB_HOME: temporaryHome() } })
  return [...said.matchAll(/^Max resident set +\S+ +(\S+) /gm)].map(([, hard = '']) => hard)
}

it.runIf(process.platform === 'linux')('each run has a brand of its own, beyond all memory', () => {
  const [first, second] = limitsSaid(`$E exec -- ${look}; $E exec -- ${look}`)
  expect(BigInt(first ?? 0) >= 1n << 62n).toBe(true)
  expect(second).not.toBe(first)
})

it.runIf(process.platform === 'linux')('an ebb inside an ebb leaves the brand of the outer one', () => {
  const [outer, inner] = limitsSaid(`$E exec -- sh -c '${look}; $E exec -- ${look}'`)
  expect(outer).toMatch(/^\d{19}$/)
  expect(inner).toBe(outer)
})

it.runIf(process.platform === 'linux')('a limit that somebody has set stays', () => {
  // A high one: whoever has not CAP_SYS_RESOURCE could not raise a low one anyway.
  expect(limitsSaid(`ulimit -m 9000000000000000; $E exec -- ${look}`)).toEqual(['9216000000000000000'])
})
