import { readFileSync } from 'node:fs'
import { readServerFile } from '../../config/server-file.ts'
import type { Control } from '../../control.ts'
import { within } from '../../core/engine/race.ts'
import { EbbError, isEbbError } from '../../core/model/errors.ts'
import { type RunningServer, requireSafe, startServer, urlOf } from '../../server/http/server.ts'
import { Metrics } from '../../server/metrics.ts'
import { structuredLog } from '../../server/structured-log.ts'
import type { Supervisor } from '../../supervisor.ts'
import type { Arguments } from '../arguments.ts'
import { callbackTo, type Wiring } from '../command.ts'
import { armFailSafe } from '../exit/fail-safe.ts'
import { leave, leaveSignals } from '../exit/leaving.ts'

/** How long the start waits for the recovery of earlier runs. A recovery that takes longer continues in the background. */
const recoveryBudgetMs = 15_000

/** `ebb serve`: the control plane in the foreground, until a signal ends it. */
export async function serve(args: Arguments, wiring: Wiring): Promise<number> {
  const config = wiring.loadConfig({ flags: args.flags, ...(args.configFile !== undefined && { configFile: args.configFile }) })
  requireSafe(config)
  const leaving = leaveSignals(wiring.inherited.ignored)
  if (config.whileStdin) leaving.leaveWithStdin()
  const { log, logger } = structuredLog(config.logLevel)
  const metrics = new Metrics({ resources: () => supervisor.engine.openResources() })
  let server: RunningServer | undefined
  const supervisor = await wiring.compose(config, {
    log,
    keepsSessions: true,
    onUnknown: (kind) => metrics.unknown(kind),
    onLogBytes: (what, bytes) => metrics.bytes(what, bytes),
    callback: () => callbackTo(server, wiring),
  })
  const { engine } = supervisor
  engine.on('report', (report) => metrics.report(report))
  engine.on('orphan', (kind) => metrics.orphan(kind))
  const failSafe = armFailSafe(supervisor, 1)
  try {
    await engine.begin({ role: 'server', address: urlOf(config.host, config.port) })
    const control = await supervisor.control()
    // A request to exit does not wait for the recovery.
    await Promise.race([recover(supervisor), leaving.requested])
    count(control, metrics)
    control.startReaper()
    control.startRetention()
    server = await startServer({
      control,
      catalogue: control.catalogue,
      settings: {
        ...config,
        allowHosts: config.allowHost,
        allowOrigins: config.allowOrigin,
        hasTestRoutes: config.testEndpoints,
        isRunner: config.runner,
      },
      logger,
      metrics: () => metrics.read(),
      containment: supervisor.containment,
      placements: supervisor.placements,
      version: (JSON.parse(readFileSync(wiring.manifest, 'utf8')) as { version: string }).version,
      problems: supervisor.problems,
      otherHosts: supervisor.otherHosts,
      dashboard: wiring.dashboard,
    })
    announce(server, supervisor, args.switches.has('json'))
    checkSettings(supervisor)
    await leaving.requested
    return await leave(supervisor, control, server, leaving, args.switches.has('json'))
  } catch (error) {
    // `leave` keeps adopted agents for the next start, which may listen on another address.
    await engine.leave({ trigger: 'process-exit' })
    await supervisor.close()
    throw withAddress(error, supervisor.home.directory)
  } finally {
    supervisor.serverFile.remove()
    failSafe.disarm()
  }
}

async function recover({ engine, clock, log }: Supervisor): Promise<void> {
  const recovering = engine.recover({ waitMs: recoveryBudgetMs }).then(({ errors }) => {
    for (const error of errors) log.error(error)
  })
  const { timedOut } = await within(clock, recoveryBudgetMs, recovering)
  if (timedOut) log.warn('The recovery of earlier runs is not finished; it continues in the background.')
}

/** Checks the settings in the background: a service that does not answer must not delay the server. */
function checkSettings({ log, checkSettings: check }: Supervisor): void {
  check().then(
    (settings) => {
      for (const { setting, says } of settings.filter(({ isGood }) => !isGood)) log.error(`The setting ${setting} does not work: ${says}`)
    },
    (error: unknown) => log.error('The settings could not be checked.', { error: String(error) }),
  )
}

/**
 * Adds the address of the running server to the error `server_running`. The address comes from the server file, because the ledger
 * has the configured port, which may be 0.
 */
function withAddress(error: unknown, home: string): unknown {
  if (!isEbbError(error, 'server_running')) return error
  const running = readServerFile(home)
  if (!running || running.pid !== error.details?.identity.pid) return error
  const text = `A server already runs on this home: pid ${running.pid}, ${running.url}. Use that one, or another --home.`
  return new EbbError('server_running', text, { cause: error, details: error.details })
}

function count({ events }: Control, metrics: Metrics): void {
  // The prompt is the first message of an agent.
  events.on('created', () => metrics.messages(1))
  events.on('messages', ({ messages }) => metrics.messages(messages.length))
}

function announce({ url }: RunningServer, { config, home, containment, serverFile }: Supervisor, isJson: boolean): void {
  const { token, store } = config
  const more = { ...(token !== undefined && { token }), ...(store !== undefined && { store }) }
  serverFile.write({ url, pid: process.pid, ...more })
  const text = isJson
    ? JSON.stringify({ url, pid: process.pid, home: home.directory })
    : `Ebb listens on ${url} (${containment}); Ctrl-C closes everything.`
  process.stdout.write(`${text}\n`)
}
