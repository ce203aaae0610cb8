import { appendFileSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { LogWatch } from '../../../../src/agents/stream/log-watch.ts'
import { realClock } from '../../../../src/host/clock.ts'
import { temporaryHome } from '../../../support/home.ts'
import { waitUntil } from '../../../support/world.ts'

interface Scene {
  readonly watch: LogWatch
  readonly home: string
  /** The names of the logs whose listeners were called, in order. */
  readonly notified: string[]
  follow(name: string): string
  /** Runs a poll of the logs. The clock of the test never starts a poll. */
  poll(): void
  polls: number
  /** Resolves when the listener of the log with this name is called. */
  growthOf(name: string): Promise<void>
}

function inScene(test: (scene: Scene) => Promise<void> | void): () => Promise<void> {
  return async () => {
    const polls: (() => void)[] = []
    const clock = { ...realClock, every: (_ms: number, _signal: AbortSignal, poll: () => void) => void polls.push(poll) }
    using watch = new LogWatch(clock)
    const home = temporaryHome()
    const notified: string[] = []
    const waiting = new Map<string, PromiseWithResolvers<void>>()
    const follow: Scene['follow'] = (name) => {
      const path = join(home, name)
      watch.add(path, () => {
        notified.push(name)
        waiting.get(name)?.resolve()
      })
      return path
    }
    const growthOf: Scene['growthOf'] = (name) => {
      const next = Promise.withResolvers<void>()
      waiting.set(name, next)
      return next.promise
    }
    const poll = (): void => polls.forEach((run) => void run())
    await test({
      watch,
      home,
      notified,
      follow,
      growthOf,
      poll,
      get polls() {
        return polls.length
      },
    })
    watch[Symbol.dispose]()
    // libuv removes a watch that is closed in its own callback only after that callback has returned.
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** Returns how many inotify watches the kernel has for this process (proc(5), fdinfo). */
function watches(): number {
  const files = readdirSync('/proc/self/fdinfo').map((fd) => {
    try {
      return readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8')
    } catch {
      return '' // One entry is the descriptor of the folder listing itself, which is closed by now and cannot be read.
    }
  })
  return files.join('').split('inotify wd:').length - 1
}

it(
  'log watch: one poll serves all followed logs when the kernel has no watch for them',
  inScene((scene) => {
    for (const name of ['none/a', 'none/b', 'nowhere/c']) scene.follow(name)
    expect(scene.polls).toBe(1)
    scene.poll()
    expect(scene.notified).toEqual(['none/a', 'none/b', 'nowhere/c'])
  }),
)

it(
  'log watch: growth calls only the listener of that log, at once, in any folder',
  inScene(async ({ home, notified, follow, growthOf }) => {
    for (const folder of ['one', 'two']) mkdirSync(join(home, folder))
    // One name in two folders means two logs.
    const names = ['one/stdout.log', 'two/stdout.log', 'two/other.log']
    for (const name of names) appendFileSync(join(home, name), '')
    for (const name of names) follow(name)
    const growth = growthOf('two/stdout.log')
    appendFileSync(join(home, 'two/stdout.log'), 'line\n')
    await growth
    expect(notified.filter((name) => name !== 'two/stdout.log')).toEqual([])
  }),
)

it(
  'log watch: a folder has one inotify watch, removed with its last log',
  inScene(({ watch, home, follow }) => {
    const before = watches()
    for (const folder of ['one', 'two']) mkdirSync(join(home, folder))
    const [a, b, c] = ['one/a', 'one/b', 'two/c'].map(follow) as [string, string, string]
    expect(watches() - before).toBe(2)
    watch.remove(a)
    watch.remove(a)
    expect(watches() - before).toBe(2)
    watch.remove(b)
    expect(watches() - before).toBe(1)
    watch.remove(c)
    expect(watches()).toBe(before)
    follow('one/a')
    watch[Symbol.dispose]()
    expect(watches()).toBe(before)
  }),
)

it(
  'log watch: a folder that is created later, or again, is watched from the next poll on',
  inScene(async ({ home, follow, growthOf, poll }) => {
    const before = watches()
    const path = follow('logs/a')
    for (const _ of ['comes', 'comes again']) {
      mkdirSync(join(home, 'logs'))
      // The kernel reports the removal of the old folder as an event too, so the test polls until the new folder is watched.
      const isWatched = (): boolean => {
        poll()
        return watches() - before === 1
      }
      await waitUntil(isWatched, 10_000, 'the folder is watched')
      const growth = growthOf('logs/a')
      appendFileSync(path, 'line\n')
      await growth
      rmSync(join(home, 'logs'), { recursive: true })
      expect(watches()).toBe(before)
    }
  }),
)

it(
  'log watch: folders beyond the watch limit are polled',
  inScene(({ home, notified, follow, poll }) => {
    const before = watches()
    const names = Array.from({ length: 1_010 }, (_, index) => `${index}/a`)
    for (const name of names) mkdirSync(join(home, name.slice(0, -2)))
    for (const name of names) follow(name)
    expect(watches() - before).toBe(1_000)
    poll()
    expect(notified).toEqual(names)
  }),
)
