import { named } from '../leaks/catalogue.ts'
import { endAll } from '../leaks/checker.ts'
import type { Order } from '../leaks/order.ts'
import { programs } from '../leaks/programs.ts'
import type { Algorithm } from './algorithms.ts'
import { Crew } from './crew.ts'
import { deleteAndSleep } from './delete-and-sleep.ts'
import { ebbReset, ebbTmux } from './ebb.ts'
import { generousDelays } from './generous-delays.ts'
import { stopAndVerify } from './stop-and-verify.ts'
import { tmuxAndPs } from './tmux-and-ps.ts'

/**
 * Four cleanups from before Ebb, with their delays and checks, and Ebb, on the same agents. The four run without the HTTP calls between their
 * parts, which makes them faster.
 */
export const algorithms: readonly Algorithm[] = [deleteAndSleep, stopAndVerify, generousDelays, tmuxAndPs, ebbReset, ebbTmux]

/** The jobs of the benchmark: a program, and the number of its agents that run at once. */
export const jobs = [
  { program: 'claude-young-tool', agents: 1 },
  { program: 'claude-young-tool', agents: 5 },
  { program: 'claude-daemon', agents: 1 },
  { program: 'claude-daemon', agents: 5 },
  { program: 'codex-young-tool', agents: 1 },
  { program: 'gemini-young-tool', agents: 1 },
  { program: 'opencode-young-tool', agents: 1 },
] as const

export interface BaselineRun {
  readonly doneMs: number
  readonly saidSuccess: boolean
  /** The number of processes at the moment when the cleanup reported its end. */
  readonly processesThen: number
  readonly filesThen: number
}

export async function benchBaseline({ way, program, agents, base, mark }: Order): Promise<BaselineRun> {
  await using crew = await Crew.of(named(programs, program), agents, base, mark)
  const started = await named(algorithms, way).start(crew)
  try {
    await crew.ready()
    const startedMs = performance.now()
    const saidSuccess = await started.cleanUp()
    const doneMs = Math.round(performance.now() - startedMs)
    return { doneMs, saidSuccess, processesThen: crew.processes(), filesThen: crew.files() }
  } finally {
    endAll(mark)
    await started.end?.()
  }
}
