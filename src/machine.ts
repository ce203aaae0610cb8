import { tmpdir } from 'node:os'
import type { Config } from './config/config.ts'
import type { Leftovers } from './doctor/leftovers-port.ts'
import { openLeftovers } from './doctor/search/leftovers.ts'
import { realClock } from './host/clock.ts'
import { realEffects } from './host/effects.ts'
import { findProgram } from './host/program.ts'
import { installed } from './providers/all.ts'

/** A part of the composition root: what only the doctor needs to know about this host. It is loaded on demand. */

export function programsOf({ environment }: Config): readonly { type: string; program: string; path: string | null }[] {
  return installed.flatMap(({ type, program }) =>
    program === undefined ? [] : [{ type, program, path: findProgram(program, environment) ?? null }],
  )
}

export function leftoversOf({ environment }: Config): Leftovers {
  return openLeftovers({ clock: realClock, effects: realEffects, cwd: workingDirectory(), temp: tmpdir(), environment })
}

/** The working directory, or `/` when it was removed, because process.cwd() then throws. */
function workingDirectory(): string {
  try {
    return process.cwd()
  } catch {
    return '/'
  }
}
