import { constants } from 'node:os'
import type { ScopeView } from '../../core/engine/api.ts'
import { within } from '../../core/engine/race.ts'
import { EbbError, errno } from '../../core/model/errors.ts'
import { leftOver, type Report } from '../../core/model/report.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Exit } from '../../core/ports/effects.ts'
import { type LocalTreeHandle, treeLabel } from '../../core/ports/process.ts'
import type { Supervisor } from '../../supervisor.ts'
import type { Arguments } from '../arguments.ts'
import { type CommandDefinition, commonOptions, type Inherited, type Wiring } from '../command.ts'
import { armFailSafe } from '../fail-safe.ts'
import { configOf } from '../open.ts'
import { writeReport } from '../report-file.ts'
import { catchSignals, sharesTerminal } from '../signals.ts'

export const definition: CommandDefinition = {
  name: 'exec',
  summary: 'run any command and leave nothing of it behind',
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

/** `ebb exec -- COMMAND…`: stdio, signals and exit code pass through; nothing the command made outlives it. */
async function run(args: Arguments, wiring: Wiring): Promise<number> {
  if (args.rest.length === 0)
    throw new EbbError('bad_usage', 'There is no command to run; write it after "--", as in: ebb exec -- npm test')
  const config = configOf(args, wiring)
  // Before anything is made: a command that cannot start leaves no trace, not even a record.
  wiring.requireProgram(args.rest, config.environment, workingDirectory())
  const supervisor = await wiring.compose(config)
  const failSafe = armFailSafe(supervisor, 125)
  const outcome = await runInScope(supervisor, args.rest, wiring.inherited)
  failSafe.disarm()
  const reportTo = config.report ?? (args.switches.has('json') ? '-' : undefined)
  if (reportTo !== undefined) writeReport(reportTo, outcome.report)
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
  // Before the scope: what is asked for in one turn with it shares its transaction.
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
  const outcome = await superviseCommand(supervisor, scope, handles.get(treeLabel) as LocalTreeHandle, signals)
  await within(clock, recoveryPatienceMs, recovering)
  // What did not go in its own time would only be asked all over again; the sentinel carries on when we have left.
  if (outcome.report.success) await engine.shutDown()
  return outcome
}

/** How long a finished command waits for the recovery of earlier runs; what is left then is for the next start. */
const recoveryPatienceMs = 2_000

async function superviseCommand(
  { engine, clock, config }: Supervisor,
  scope: ScopeView,
  tree: LocalTreeHandle,
  signals: ReturnType<typeof catchSignals>,
): Promise<Outcome> {
  let exit: Exit | undefined
  const exited = tree.exit.then((how) => {
    exit = how
  })
  const over = new AbortController()
  let askedMs: number | undefined
  const leave = new Promise<'timeout' | 'signal'>((resolve) => {
    if (config.timeout !== undefined) clock.after(config.timeout, over.signal, () => resolve('timeout'))
    passSignals(engine, scope, tree, {
      clock,
      signals,
      isOver: () => exit !== undefined,
      hasExited: exited,
      graceMs: config.grace,
      asked: () => {
        askedMs ??= clock.now()
      },
      leave: () => resolve('signal'),
    })
  })
  const why = await Promise.race([exited, leave])
  const graceMs = graceLeft(clock, config.grace, askedMs)
  const trigger = exit === undefined ? 'terminated' : 'completed'
  clock.after(progressMs, over.signal, () =>
    say(
      `what the command left running has ${Math.max(1, Math.ceil((graceMs - progressMs) / 1_000))} s to leave by itself; Ctrl-C twice forces it.`,
    ),
  )
  const report = await engine.close(scope.id, { trigger, forget: true, graceMs })
  over.abort()
  // Proven gone, so its exit is on its way to us; only a stuck one never comes.
  await within(clock, exitPatienceMs, exited)
  return { exit, timedOut: why === 'timeout', report }
}

const exitPatienceMs = 1_000

/** The grace is one, from the first request to leave on: what the command has used of it, what it left does not get again. */
function graceLeft(clock: Clock, graceMs: number, askedMs: number | undefined): number {
  return askedMs === undefined ? graceMs : Math.max(0, askedMs + graceMs - clock.now())
}

/** Anything that takes longer than this says so. */
const progressMs = 1_000

interface Passing {
  readonly clock: Clock
  readonly isOver: () => boolean
  readonly hasExited: Promise<void>
  readonly signals: ReturnType<typeof catchSignals>
  readonly graceMs: number
  /** The command has been asked to leave. */
  readonly asked: () => void
  readonly leave: () => void
}

/**
 * On a terminal the command shares our foreground group and has had its Ctrl-C from the kernel already: we only count.
 * Elsewhere the signal is passed on, and when the command does not leave within half the grace, the close begins; a
 * second one forces.
 */
function passSignals(engine: Supervisor['engine'], scope: ScopeView, tree: LocalTreeHandle, passing: Passing): void {
  let asked = 0
  const force = (): void => void engine.close(scope.id, { trigger: 'terminated', force: true }).catch(() => {})
  passing.signals.listen((signal, meansLeave, isEarly) => {
    if (!meansLeave) {
      if (!passing.isOver()) passOn(tree.pid, signal)
      return
    }
    asked += 1
    // A Ctrl-C that came before there was a command has reached nobody but us.
    const isKeyboard = !isEarly && (signal === 'SIGINT' || signal === 'SIGQUIT') && sharesTerminal()
    if (isKeyboard && scope.state === 'open') return
    if (asked > 1) {
      force()
      passing.leave()
    } else if (scope.state !== 'open') {
      say('closing what the command left running; once more to force it.')
    } else {
      passing.asked()
      if (!passing.isOver()) passOn(tree.pid, signal)
      within(passing.clock, passing.graceMs / 2, passing.hasExited).then(passing.leave, passing.leave)
    }
  })
}

/** Under a keeper the command is not our child: it may be reaped before its exit is told to us. */
function passOn(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if (errno(error) !== 'ESRCH') throw error
  }
}

/** Words of ours between the command's own, for a person at a terminal only. */
function say(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`ebb: ${text}\n`)
}

function exitCode({ exit, timedOut, report }: Outcome): number {
  if (!report.success) {
    const left = leftOver(report).map((one) => `  ${one.kind} ${one.name}: ${one.error ?? one.outcome}\n`)
    process.stderr.write(`ebb: not everything could be released; "ebb status" shows it until it is gone:\n${left.join('')}`)
    return 3
  }
  for (const error of report.errors) process.stderr.write(`ebb: ${error}\n`)
  if (timedOut) return 124
  if (exit?.signal) return 128 + constants.signals[exit.signal]
  return exit?.code ?? 125
}
