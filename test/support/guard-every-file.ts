import { afterAll } from 'vitest'
import { fileMark, markVariable } from './mark.ts'
import { requireCleanFile } from './world-guard.ts'

/** Set-up of the unit tier. Few of its tests start a process, and there are thousands of them: one observation per file is enough. */

process.env[markVariable] = fileMark

afterAll(requireCleanFile)
