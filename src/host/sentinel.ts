import type { Duplex } from 'node:stream'
import { sentence } from '../core/model/errors.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { Child, Effects } from '../core/ports/effects.ts'
import type { Sentinel } from '../core/ports/host.ts'

/**
 * The script of the sentinel. It reads from a socket whose other end only the supervisor holds. When the socket closes without the word
 * `bye`, the supervisor is dead: the script writes to the kill switch and execs `ebb recover`. It takes 1.7 MB of memory. It has its own
 * session, and no text of the user in its argv, so that a `pkill -f` that is meant for an agent does not match it. It ignores SIGPIPE,
 * because the supervisor may be dead before the script prints `ready`.
 *
 * A Node that gets only some of its threads waits for the others forever. So Node is not started before ten pids are free at once,
 * which nested subshells try out (`command eval` keeps sh alive when a fork fails). The pids of killed processes become free when those
 * are reaped. When no pids become free within 30 s, the ledger is left for the next start.
 */
const script = `
umask 077
trap '' HUP INT QUIT TERM PIPE
echo ready >&3
read -r word <&3
[ "$word" = bye ] && exit 0
exec 3<&-
[ -n "$SENTINEL_KILL" ] && { echo 1 >"$SENTINEL_KILL"; } 2>/dev/null
unset SENTINEL_KILL
probe='(:)'
for _ in 1 2 3 4 5 6 7 8 9; do probe="($probe || exit 1)"; done
read -r since _ </proc/uptime
until command eval "$probe"; do
  command eval 'sleep 0.05'
  read -r now _ </proc/uptime
  [ $((\${now%.*} - \${since%.*})) -lt 30 ] || exit 1
done 2>/dev/null
exec 2>"$SENTINEL_LOG"
exec "$SENTINEL_NODE" --disable-warning=ExperimentalWarning "$SENTINEL_START" "$SENTINEL_WHICH" "" recover
`

export interface SentinelSettings {
  readonly effects: Effects
  readonly clock: Clock
  readonly home: string
  /** The incarnation that the sentinel watches. */
  readonly incarnation: string
  /** The file to which the sentinel writes `1` to kill the trees; empty where the containment has none, and only the recovery kills. */
  readonly killSwitch: string
  /** The file that starts the command line (`start`), and whether it runs the sources or the bundle (`which`). */
  readonly start: string
  readonly which: string
  readonly node: string
  readonly log: string
  /** Called when the sentinel ended and its successor could not run either. More attempts follow. */
  readonly onLost: (reason: string) => void
  /**
   * The environment of the sentinel. It carries the environment tags of an outer Ebb: a sentinel inside an agent belongs to the tree of
   * that agent.
   */
  readonly environment: Readonly<Record<string, string>>
}

/** A sentinel that ends is replaced at once. When successors end too, or cannot be started, the pause doubles each time. */
const firstPauseMs = 100
const longestPauseMs = 10_000
/** After a sentinel has watched for this long, its end counts as the first failure again. */
const healthyMs = 60_000

export class PipeSentinel implements Sentinel {
  readonly #settings: SentinelSettings
  #child: Child | undefined
  #starting: Promise<void> | undefined
  #isDismissed = false
  #isLost = false
  /** When the last sentinel began to watch. */
  #watchingSinceMs: number | undefined
  #restarts = 0
  #pause = new AbortController()

  constructor(settings: SentinelSettings) {
    this.#settings = settings
  }

  ready(): Promise<void> {
    this.#starting ??= this.#start()
    return this.#starting
  }

  async #start(): Promise<void> {
    const child = await this.#spawn()
    this.#child = child
    let hasEnded = false
    child.exit.then(() => {
      hasEnded = true
      this.#lost('it was ended')
    })
    if (this.#isDismissed) this.dismiss() // `dismiss` was called while this sentinel was being started.
    if ((await firstLine(child.channel)) !== 'ready' || hasEnded) throw new Error('The sentinel did not start; check that /bin/sh exists.')
    child.unref()
    this.#watchingSinceMs = this.#settings.clock.now()
    this.#isLost = false
  }

  async #spawn(): Promise<Child> {
    const { effects, home, incarnation, killSwitch, start, which, node, log, environment } = this.#settings
    const env = {
      ...environment,
      EBB_HOME: home,
      SENTINEL_OF: incarnation,
      SENTINEL_KILL: killSwitch,
      SENTINEL_NODE: node,
      SENTINEL_START: start,
      SENTINEL_WHICH: which,
      SENTINEL_LOG: log,
    }
    const argv = ['ebb-sentinel', '-c', script]
    try {
      return await effects.spawn({ program: '/bin/sh', argv, env, cwd: '/', stdio: ['ignore', 'ignore', 'ignore', 'pipe'], detached: true })
    } catch (error) {
      this.#lost(sentence(error))
      throw error
    }
  }

  /** A first sentinel that never watched is not replaced: `ready` rejects, so the launch fails and creates nothing. */
  #lost(reason: string): void {
    const { clock, onLost } = this.#settings
    if (this.#isDismissed || this.#watchingSinceMs === undefined) return
    if (!this.#isLost && clock.now() - this.#watchingSinceMs >= healthyMs) this.#restarts = 0
    this.#isLost = true
    const failures = this.#restarts++
    if (failures === 0) {
      this.#restart()
      return
    }
    if (failures === 1) onLost(reason)
    const pause = new AbortController()
    this.#pause = pause
    // The wait for the next sentinel must not keep the process alive. The timer of `every` is unreferenced, that of `after` is not.
    clock.every(Math.min(longestPauseMs, firstPauseMs * 2 ** (failures - 1)), pause.signal, () => {
      pause.abort()
      this.#restart()
    })
  }

  #restart(): void {
    this.#starting = this.#start()
    // A failed start of a sentinel is handled by `#lost`, which schedules the next attempt. Callers of `ready` get the error itself.
    this.#starting.catch(() => {})
  }

  /** True while no sentinel watches this process. */
  get isLost(): boolean {
    return this.#isLost
  }

  dismiss(): void {
    this.#isDismissed = true
    this.#pause.abort()
    // The channel is not ended here: that takes 0.4 ms, and the exit of the sentinel closes it.
    this.#child?.channel?.write('bye\n')
  }

  get pid(): number | undefined {
    return this.#child?.pid
  }
}

/** Resolves with the first line on the channel, or with undefined when the channel closes before. */
function firstLine(channel: Duplex | undefined): Promise<string | undefined> {
  return new Promise((resolve) => {
    let text = ''
    channel?.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1')
      if (text.includes('\n')) resolve(text.slice(0, text.indexOf('\n')))
    })
    // The sentinel may end at any time, and its exit reports that.
    channel?.on('error', () => resolve(undefined))
    channel?.on('close', () => resolve(undefined))
  })
}
