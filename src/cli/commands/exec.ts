import { writeFileSync, writeSync } from 'node:fs'
import { constants } from 'node:os'
import type { ScopeView } from '../../core/engine/api.ts'
import { within } from '../../core/engine/race.ts'
import { EbbError, sentence } from '../../core/model/errors.ts'
import { leftOver, type Report } from '../../core/model/report.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Exit } from '../../core/ports/effects.ts'
import { type TreeHandle, treeLabel } from '../../core/ports/process.ts'
import type { Supervisor } from '../../supervisor.ts'
import type { Arguments } from '../arguments.ts'
import { type CommandDefinition, commonOptions, type Inherited, type Wiring } from '../command.ts'
import { armFailSafe } from '../exit/fail-safe.ts'
import { catchSignals, sharesTerminal } from '../exit/signals.ts'
import { configOf } from '../open.ts'

export const definition: CommandDefinition = {
  name: 'exec',
  summary: 'run any command, and end everything that it leaves running',
  usage: 'ebb exec [options] -- COMMAND [ARGUMENT…]',
  examples: [
    'ebb exec -- npm test',
    'ebb exec --timeout 10m --grace 2s -- claude -p "Fix the flaky test"',
    'ebb exec --report report.json --limit-memory 2g -- ./run-agent.sh',
  ],
  options: [...commonOptions, 'store', 'grace', 'timeout', 'report', 'containment', 'limitMemory', 'limitPids'],
  switches: ['json', 'help'],
  takesCommand: true,
  leavesInTime: true,
  exitsLikeShell: true,
  run,
}

/** The command has Ebb's stdio, and receives its signals. Ebb exits with the command's exit code. */
async function run(args: Arguments, wiring: Wiring): Promise<number> {
  if (args.rest.length === 0)
    throw new EbbError('bad_usage', 'There is no command to run; write it after "--", as in: ebb exec -- npm test')
  const config = configOf(args, wiring)
  // The program is checked before anything is created, so that a command that cannot start leaves no record.
  wiring.requireProgram(args.rest, config.environment, workingDirectory())
  const supervisor = await wiring.compose(config)
  const failSafe = armFailSafe(supervisor, 125)
  const outcome = await runInScope(supervisor, args.rest, wiring.inherited)
  failSafe.disarm()
  const reportTo = config.report ?? (args.switches.has('json') ? '-' : undefined)
  if (reportTo !== undefined) writeReport(reportTo, outcome.report)
  wiring.inherited.keepCode?.()
  return exitCode(outcome)
}

export function workingDirectory(): string {
  try {
    return process.cwd()
  } catch (error) {
    throw new EbbError('launch_refused', 'The working directory does not exist any more; change to another one.', { cause: error })
  }
}

interface Outcome {
  readonly exit: Exit | undefined
  readonly timedOut: boolean
  readonly report: Report
}

async function runInScope(supervisor: Supervisor, argv: readonly string[], inherited: Inherited): Promise<Outcome> {
  const { engine, clock, newId, config } = supervisor
  const signals = catchSignals(inherited.ignored)
  const asAgent = await supervisor.asAgent(argv, config.environment)
  const scope = engine.openScope({ id: newId(), kind: 'agent' })
  const limits = {
    ...(config.limitMemory !== undefined && { memoryBytes: config.limitMemory }),
    ...(config.limitPids !== undefined && { pids: config.limitPids }),
  }
  const plan = supervisor.plan(scope.id, {
    argv,
    env: config.environment,
    cwd: workingDirectory(),
    output: 'inherit',
    stdin: 'inherit',
    descriptors: inherited.descriptors,
    ignoredSignals: inherited.ignored,
    ...(Object.keys(limits).length > 0 && { limits }),
    ...asAgent,
  })
  const handles = await engine.launch(scope, plan).catch(async (error: unknown) => {
    await engine.shutDown()
    throw error
  })
  const recovering = engine
    .recover({ releasesClaims: true })
    .catch((error: unknown) => supervisor.log.warn('Earlier runs could not be recovered.', { error: String(error) }))
  const outcome = await superviseCommand(supervisor, scope, handles.get(treeLabel), signals)
  await within(clock, recoveryPatienceMs, recovering)
  // A shutdown follows only a successful close. After a failed close it would only repeat the same steps, and the sentinel
  // continues after the exit.
  if (outcome.report.success) await engine.shutDown()
  return outcome
}

/** How long a finished command waits for the recovery of earlier runs. The next start continues a recovery that takes longer. */
const recoveryPatienceMs = 2_000

async function superviseCommand(
  { engine, clock, config }: Supervisor,
  scope: ScopeView,
  tree: TreeHandle,
  signals: ReturnType<typeof catchSignals>,
): Promise<Outcome> {
  let exit: Exit | undefined
  const exited = tree.exit.then((result) => {
    exit = result
  })
  const finished = new AbortController()
  let requestedMs: number | undefined
  const leave = new Promise<'timeout' | 'signal'>((resolve) => {
    if (config.timeout !== undefined) clock.after(config.timeout, finished.signal, () => resolve('timeout'))
    passSignals(engine, scope, tree, {
      clock,
      signals,
      hasEnded: () => exit !== undefined,
      hasExited: exited,
      graceMs: config.grace,
      onRequest: () => {
        requestedMs ??= clock.now()
      },
      leave: () => resolve('signal'),
    })
  })
  const cause = await Promise.race([exited, leave])
  const graceMs = graceLeft(clock, config.grace, requestedMs)
  const trigger = exit === undefined ? 'terminated' : 'completed'
  clock.after(progressMs, finished.signal, () =>
    writeNotice(
      `the processes that the command left running have ${Math.max(1, Math.ceil((graceMs - progressMs) / 1_000))} s to end; Ctrl-C twice forces them.`,
    ),
  )
  const report = await engine.close(scope.id, { trigger, forget: true, graceMs })
  finished.abort()
  // The tree is proven gone, so its exit arrives soon. Only the exit of a stuck process may never arrive.
  await within(clock, exitPatienceMs, exited)
  return { exit, timedOut: cause === 'timeout', report }
}

const exitPatienceMs = 1_000

/**
 * Returns the rest of the grace. The grace starts at the first request to end. It covers the command and the processes that the
 * command leaves running together.
 */
function graceLeft(clock: Clock, graceMs: number, requestedMs: number | undefined): number {
  return requestedMs === undefined ? graceMs : Math.max(0, requestedMs + graceMs - clock.now())
}

/** A close that takes longer than this shows a notice. */
const progressMs = 1_000

interface SignalOptions {
  readonly clock: Clock
  readonly hasEnded: () => boolean
  readonly hasExited: Promise<void>
  readonly signals: ReturnType<typeof catchSignals>
  readonly graceMs: number
  /** Called when the command was requested to end. */
  readonly onRequest: () => void
  readonly leave: () => void
}

/**
 * Passes signals on to the command. On a terminal the command is in the same foreground group, so the kernel has sent it the Ctrl-C
 * already; such a signal is only counted. If the command does not end within half of the grace, the close begins. A second signal
 * forces the close.
 */
function passSignals(engine: Supervisor['engine'], scope: ScopeView, tree: TreeHandle, options: SignalOptions): void {
  let requests = 0
  // The error of a forced close is ignored here, because the running close reports its own failure.
  const force = (): void => void engine.close(scope.id, { trigger: 'terminated', force: true }).catch(() => {})
  options.signals.listen((signal, requestsExit, isEarly) => {
    if (!requestsExit) {
      if (!options.hasEnded()) tree.signal?.(signal)
      return
    }
    requests += 1
    // A Ctrl-C before the start of the command has reached only this process.
    const isKeyboard = !isEarly && (signal === 'SIGINT' || signal === 'SIGQUIT') && sharesTerminal()
    if (isKeyboard && scope.state === 'open') return
    if (requests > 1) {
      force()
      options.leave()
    } else if (scope.state !== 'open') {
      writeNotice('closing what the command left running; repeat the signal to force it.')
    } else {
      options.onRequest()
      if (!options.hasEnded()) tree.signal?.(signal)
      within(options.clock, options.graceMs / 2, options.hasExited).then(options.leave, options.leave)
    }
  })
}

/** Writes a notice between the command's own output, only on a terminal. */
function writeNotice(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`ebb: ${text}\n`)
}

function exitCode({ exit, timedOut, report }: Outcome): number {
  if (!report.success) {
    const left = leftOver(report).map(({ kind, name, error, outcome }) => `  ${kind} ${name}: ${error ?? outcome}\n`)
    process.stderr.write(`ebb: not everything could be released; "ebb status" shows it until it is gone:\n${left.join('')}`)
    return 3
  }
  for (const error of report.errors) process.stderr.write(`ebb: ${error}\n`)
  if (timedOut) return 124
  if (exit?.signal) return 128 + constants.signals[exit.signal]
  return exit?.code ?? 125
}

/** Writes the report. `-` is standard error, so that the command's own standard output is not changed. */
function writeReport(to: string, report: Report): void {
  const text = `${JSON.stringify(report, null, 2)}\n`
  try {
    if (to === '-') writeSync(2, text)
    else writeFileSync(to, text, { mode: 0o600 })
  } catch (error) {
    throw new EbbError(
      'launch_failed',
      `The report could not be written to ${to} (${sentence(error)}); the command itself has ended and nothing of it is left.`,
    )
  }
}
