import { execFileSync } from 'node:child_process'
import { expect, it } from 'vitest'
import { ebbProgram, temporaryHome } from '../../support/home.ts'

/**
 * The resource limit that holds the rlimit tag of a tree, as the command sees it. Ebb sets the limit when it has no value, and otherwise
 * leaves it unchanged.
 */

const showLimit = 'grep "Max resident set" /proc/self/limits'

/** The hard limits that the script prints, in bytes. */
function limitsPrinted(script: string): readonly string[] {
  const output = execFileSync('sh', ['-c', script], { encoding: 'utf8', env: { ...process.env, E: ebbProgram, EBB_HOME: temporaryHome() } })
  return [...output.matchAll(/^Max resident set +\S+ +(\S+) /gm)].map(([, hard = '']) => hard)
}

it.runIf(process.platform === 'linux')('rlimit tag: each run has its own, larger than any memory', () => {
  const [first, second] = limitsPrinted(`$E exec -- ${showLimit}; $E exec -- ${showLimit}`)
  expect(BigInt(first ?? 0) >= 1n << 62n).toBe(true)
  expect(second).not.toBe(first)
})

it.runIf(process.platform === 'linux')('rlimit tag: an inner ebb keeps the tag of the outer one', () => {
  const [outer, inner] = limitsPrinted(`$E exec -- sh -c '${showLimit}; $E exec -- ${showLimit}'`)
  expect(outer).toMatch(/^\d{19}$/)
  expect(inner).toBe(outer)
})

it.runIf(process.platform === 'linux')('rlimit tag: a limit that the user has set is not overwritten', () => {
  // The limit is high, because a low limit could not be raised to a tag without CAP_SYS_RESOURCE in any case.
  expect(limitsPrinted(`ulimit -m 9000000000000000; $E exec -- ${showLimit}`)).toEqual(['9216000000000000000'])
})
