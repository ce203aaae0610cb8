import { afterAll, aroundEach } from 'vitest'
import { knownHomes } from './home.ts'
import { fileMark, markVariable, nextTestMark } from './mark.ts'
import { requireCleanFile, requireCleanWorld } from './world-guard.ts'

/**
 * Set-up of all suites that start processes. After every test it checks the system, and fails a test that left something. Processes that a
 * file starts for all its tests carry the file's mark and are checked when the file ends.
 */

process.env[markVariable] = fileMark

aroundEach(async (runTest) => {
  const mark = nextTestMark()
  const before = new Set(knownHomes().keys())
  process.env[markVariable] = mark
  try {
    await runTest()
  } finally {
    process.env[markVariable] = fileMark
  }
  await requireCleanWorld(
    mark,
    [...knownHomes().keys()].filter((home) => !before.has(home)),
  )
})

afterAll(requireCleanFile)
