import { readFileSync } from 'node:fs'
import { readServerFile, removeServerFile, writeServerFile } from '../../config/server-file.ts'
import type { Control } from '../../control/control.ts'
import { EbbError, isEbbError } from '../../domain/errors.ts'
import type { Report } from '../../domain/report.ts'
import { noop, within } from '../../engine/race.ts'
import type { Supervisor } from '../../main.ts'
import { Metrics } from '../../observability/metrics.ts'
import { structuredLog } from '../../observability/structured-log.ts'
import type { IncarnationRecord } from '../../ports/ledger.ts'
import { type RunningServer, requireSafe, startServer, urlOf } from '../http/server.ts'
import type { Arguments } from './arguments.ts'
import type { Wiring } from './cli.ts'
import { armFailSafe } from './fail-safe.ts'

/** From the signal to the exit are eight seconds, of which the exit itself takes a little. */
const exitBudgetMs = 7_500

/** The books and the goodbye need the rest. */
const closeBudgetMs = 6_500

/** Before the first call is answered, what an earlier server left is over; what takes longer goes on beside. */
const recoveryBudgetMs = 15_000

/** `ebb serve`: the control plane in the foreground, until a signal ends it. */
export async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const config = wiring.loadConfig({ flags: args.flags, ...(args.configFile !== undefined && { configFile: args.configFile }) })
  requireSafe(config)
  const leaving = leaveSignals()
  if (config.whileStdin) leaving.leaveWithStdin()
  const { log, logger } = structuredLog(config.logLevel)
  let metrics: Metrics | undefined
  const supervisor = await wiring.compose(config, {
    log,
    onReport: (report) => metrics?.report(report),
    onUnknown: (kind) => metrics?.unknown(kind),
    onLogBytes: (what, bytes) => metrics?.bytes(what, bytes),
  })
  const { engine } = supervisor
  metrics = new Metrics({ resources: async () => (await engine.parts.ledger.books(undefined, 'open')).resources })
  const failSafe = armFailSafe(supervisor, 1)
  try {
    await engine.begin({ role: 'server', address: urlOf(config.host, config.port) })
    // Who is asked to leave meanwhile does not wait for it.
    await Promise.race([recover(supervisor), leaving.asked])
    const control = await supervisor.control()
    count(control, metrics)
    control.startReaper()
    const server = await startServer({
      control,
      catalogue: control.catalogue,
      settings: { ...config, allowHosts: config.allowHost, allowOrigins: config.allowOrigin, hasTestRoutes: config.testEndpoints },
      logger,
      metrics: () => metrics.read(),
      containment: supervisor.containment,
      version: (JSON.parse(readFileSync(wiring.manifest, 'utf8')) as { version: string }).version,
      problems: supervisor.problems,
    })
    announce(server, supervisor, args.switches.has('json'))
    await leaving.asked
    return await leave(supervisor, control, server, leaving)
  } catch (error) {
    await engine.shutDown()
    await supervisor.close()
    throw atItsAddress(error, supervisor.home.directory)
  } finally {
    removeServerFile(supervisor.home.directory)
    failSafe.disarm()
  }
}

async function recover({ engine, log }: Supervisor): Promise<void> {
  const { timedOut } = await within(engine.parts.clock, recoveryBudgetMs, engine.recoverPatiently(recoveryBudgetMs))
  if (timedOut) log.warn('What earlier runs left is still being recovered; that goes on beside.')
}

/** On the books is the port that the other one was told, which may be 0; its own file says what became of it. */
function atItsAddress(error: unknown, home: string): unknown {
  if (!isEbbError(error, 'server_running')) return error
  const running = readServerFile(home)
  if (running?.pid !== (error.details as IncarnationRecord).identity.pid) return error
  const text = `A server already runs on this home: pid ${running.pid}, ${running.url}. Use that one, or another --home.`
  return new EbbError('server_running', text, { cause: error, details: error.details })
}

function count({ events, reaper }: Control, metrics: Metrics): void {
  // Its prompt is the first message of an agent.
  events.on('created', () => metrics.messages(1))
  events.on('messages', ({ messages }) => metrics.messages(messages.length))
  reaper.onFound = (kind) => metrics.orphan(kind)
}

function announce({ url }: RunningServer, { config, home, containment }: Supervisor, isJson: boolean): void {
  writeServerFile(home.directory, { url, pid: process.pid, ...(config.token !== undefined && { token: config.token }) })
  const text = isJson
    ? JSON.stringify({ url, pid: process.pid, home: home.directory })
    : `Ebb listens on ${url} (${containment}); Ctrl-C closes everything.`
  process.stdout.write(`${text}\n`)
}

interface Leaving {
  readonly asked: Promise<void>
  /** Whoever holds the other end lives as long as it is open, also when it is killed. */
  leaveWithStdin(): void
  onAgain: () => void
}

/** The first signal asks, the second one forces. */
function leaveSignals(): Leaving {
  const asked = Promise.withResolvers<void>()
  let times = 0
  const leaving: Leaving = {
    asked: asked.promise,
    leaveWithStdin: () => {
      // It read our output too: that it is gone is no reason to leave otherwise than in order.
      process.stdout.on('error', () => {})
      for (const end of ['end', 'error', 'close']) process.stdin.on(end, () => asked.resolve())
      process.stdin.resume()
    },
    onAgain: () => {},
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      times += 1
      if (times === 1) asked.resolve()
      else leaving.onAgain()
    })
  }
  return leaving
}

/** Everything is closed, proven; then nobody is listened to any more. What does not come to its end in time is left to the sentinel. */
async function leave(supervisor: Supervisor, control: Control, server: RunningServer, leaving: Leaving): Promise<number> {
  const { engine, log } = supervisor
  leaving.onAgain = () => void engine.close(engine.hostScopeId, { trigger: 'process-exit', force: true }).catch(noop)
  let report: Report | undefined
  const leaveInOrder = async (): Promise<void> => {
    report = await engine.shutDown({ trigger: 'process-exit', deadlineMs: closeBudgetMs })
    if (!report.success) complain(report.errors)
    await control.close()
    await server.close()
    log.info('Ebb has left.', { scope: engine.hostScopeId, trigger: 'process-exit' })
    await supervisor.close()
  }
  await within(engine.parts.clock, exitBudgetMs, leaveInOrder())
  if (report) return report.success ? 0 : 3
  supervisor.killAllNow()
  complain(['What was closed could not be looked at and written down in time; the sentinel carries on.'])
  return 3
}

function complain(errors: readonly string[]): void {
  process.stderr.write(
    `ebb: not everything could be released; "ebb status" shows it until it is gone:\n${errors.map((error) => `  ${error}\n`).join('')}`,
  )
}
