import { sentence } from '../core/model/errors.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { Child, Effects } from '../core/ports/effects.ts'
import type { Sentinel } from '../core/ports/host.ts'

/**
 * The tiny process that outlives us by a moment. It waits at the end of a pipe that only we hold; when the pipe closes
 * without a goodbye we are dead, and it writes the kill switch and becomes `ebb recover`. 1.7 MB of memory, a session of
 * its own, and nothing of the user's in its argv, so that no `pkill -f` that is meant for an agent hits it. PIPE is
 * ignored because we may be dead before it says that it is ready.
 *
 * A Node that gets only some of its threads waits for the others for ever, so it is not started before ten pids are
 * free at once (tried with nested subshells; `command eval` keeps sh alive when a fork fails). Those of the killed come
 * back when they are reaped; when none do, the books are for the next start.
 */
const script = `
umask 077
trap '' HUP INT QUIT TERM PIPE
echo ready
exec >/dev/null
read -r word
[ "$word" = bye ] && exit 0
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
  /** Whom it watches. */
  readonly incarnation: string
  /** The file to write `1` to; empty where the containment has none and the recovery does it all. */
  readonly killSwitch: string
  /** The command line's entry, and whether it runs the sources or the bundle. */
  readonly start: string
  readonly which: string
  readonly node: string
  readonly log: string
  /** Nothing watches over us, and a new one could not be had at once; it is tried again. */
  readonly onLost: (reason: string) => void
  /** An Ebb inside another's agent: its sentinel belongs to the outer one's tree too. */
  readonly environment: Readonly<Record<string, string>>
}

/** One that ends is replaced at once; where its successors end too, or cannot be started, they come ever more slowly. */
const firstPauseMs = 100
const longestPauseMs = 10_000
/** One that watched for so long was well: its end is the first of a row again. */
const wellMs = 60_000

export class PipeSentinel implements Sentinel {
  readonly #settings: SentinelSettings
  #child: Child | undefined
  #starting: Promise<void> | undefined
  #isDismissed = false
  #isLost = false
  /** When the last one began to watch. */
  #watchedMs: number | undefined
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
    if (this.#isDismissed) this.dismiss() // It was, while this one was being started.
    if ((await child.firstLine()) !== 'ready' || hasEnded) throw new Error('The sentinel did not start; /bin/sh may be missing.')
    child.unref()
    this.#watchedMs = this.#settings.clock.now()
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
      return await effects.spawn({ program: '/bin/sh', argv, env, cwd: '/', stdio: ['pipe', 'pipe', 'ignore'], detached: true })
    } catch (error) {
      this.#lost(sentence(error))
      throw error
    }
  }

  /** A first one that never watched is no loss: whoever waits for it is told, and nothing is made. */
  #lost(reason: string): void {
    const { clock, onLost } = this.#settings
    if (this.#isDismissed || this.#watchedMs === undefined) return
    if (!this.#isLost && clock.now() - this.#watchedMs >= wellMs) this.#restarts = 0
    this.#isLost = true
    const failures = this.#restarts++
    if (failures === 0) {
      this.#restart()
      return
    }
    if (failures === 1) onLost(reason)
    const pause = new AbortController()
    this.#pause = pause
    // Not `after`: a wait for a sentinel must not keep us alive.
    clock.every(Math.min(longestPauseMs, firstPauseMs * 2 ** (failures - 1)), pause.signal, () => {
      pause.abort()
      this.#restart()
    })
  }

  #restart(): void {
    this.#starting = this.#start()
    this.#starting.catch(() => {})
  }

  /** Nobody watches over us just now. */
  get isLost(): boolean {
    return this.#isLost
  }

  dismiss(): void {
    this.#isDismissed = true
    this.#pause.abort()
    this.#child?.stdin?.end('bye\n')
  }

  get pid(): number | undefined {
    return this.#child?.pid
  }
}
