import { afterAll } from 'vitest'
import { fileMark, markVariable } from './mark.ts'
import { requireCleanFile } from './world-guard.ts'

/** Set-up of the unit tests. Few of the thousands of unit tests start a process, so one check per file is enough. */

process.env[markVariable] = fileMark

afterAll(requireCleanFile)
