import type { Child, Effects } from '../../ports/effects.ts'
import type { Sentinel } from '../../ports/host.ts'

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
  readonly home: string
  /** The file to write `1` to; empty where the containment has none and the recovery does it all. */
  readonly killSwitch: string
  /** The command line's entry, and whether it runs the sources or the bundle. */
  readonly start: string
  readonly which: string
  readonly node: string
  readonly log: string
  /** Nothing watches over us any more. */
  readonly onLost: () => void
  /** An Ebb inside another's agent: its sentinel belongs to the outer one's tree too. */
  readonly environment: Readonly<Record<string, string>>
}

/** A sentinel that dies at once, again and again, is a broken machine: stop trying and say so. */
const restartsAllowed = 20

export class PipeSentinel implements Sentinel {
  readonly #settings: SentinelSettings
  #child: Child | undefined
  #starting: Promise<void> | undefined
  #isDismissed = false
  #restarts = 0

  constructor(settings: SentinelSettings) {
    this.#settings = settings
  }

  ready(): Promise<void> {
    this.#starting ??= this.#start()
    return this.#starting
  }

  async #start(): Promise<void> {
    const { effects, home, killSwitch, start, which, node, log, environment } = this.#settings
    const child = await effects.spawn({
      program: '/bin/sh',
      argv: ['ebb-sentinel', '-c', script],
      env: {
        ...environment,
        EBB_HOME: home,
        SENTINEL_KILL: killSwitch,
        SENTINEL_NODE: node,
        SENTINEL_START: start,
        SENTINEL_WHICH: which,
        SENTINEL_LOG: log,
      },
      cwd: '/',
      stdio: ['pipe', 'pipe', 'ignore'],
      detached: true,
    })
    this.#child = child
    child.exit.then(() => this.#restart())
    if (this.#isDismissed) this.dismiss() // It was, while this one was being started.
    if ((await child.firstLine()) !== 'ready') throw new Error('The sentinel did not start; /bin/sh may be missing.')
    child.unref()
  }

  #restart(): void {
    if (this.#isDismissed) return
    if (++this.#restarts > restartsAllowed) {
      this.#settings.onLost()
      return
    }
    this.#starting = this.#start()
    this.#starting.catch(() => {})
  }

  dismiss(): void {
    this.#isDismissed = true
    this.#child?.stdin?.end('bye\n')
  }

  get pid(): number | undefined {
    return this.#child?.pid
  }
}
