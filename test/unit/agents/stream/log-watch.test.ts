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
  /** Who followed what was told, in order. */
  readonly told: string[]
  follow(name: string): string
  /** The slow look, which nobody else calls here. */
  look(): void
  looks: number
  /** Resolves when the one who follows this name is told. */
  heard(name: string): Promise<void>
}

function inScene(test: (scene: Scene) => Promise<void> | void): () => Promise<void> {
  return async () => {
    const looks: (() => void)[] = []
    const clock = { ...realClock, every: (_ms: number, _signal: AbortSignal, look: () => void) => void looks.push(look) }
    using watch = new LogWatch(clock)
    const home = temporaryHome()
    const told: string[] = []
    const waiting = new Map<string, PromiseWithResolvers<void>>()
    const follow: Scene['follow'] = (name) => {
      const path = join(home, name)
      watch.add(path, () => {
        told.push(name)
        waiting.get(name)?.resolve()
      })
      return path
    }
    const heard: Scene['heard'] = (name) => {
      const next = Promise.withResolvers<void>()
      waiting.set(name, next)
      return next.promise
    }
    const look = (): void => looks.forEach((one) => void one())
    await test({
      watch,
      home,
      told,
      follow,
      heard,
      look,
      get looks() {
        return looks.length
      },
    })
    watch[Symbol.dispose]()
    // libuv removes a watch that is closed in its own callback only after that callback has returned.
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** What the kernel watches for this process, by its own account. */
function watches(): number {
  const files = readdirSync('/proc/self/fdinfo').map((fd) => {
    try {
      return readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8')
    } catch {
      return '' // That of the listing itself.
    }
  })
  return files.join('').split('inotify wd:').length - 1
}

it(
  'without a watch of the kernel there is one slow look at all logs, however many are followed',
  inScene((scene) => {
    for (const name of ['none/a', 'none/b', 'nowhere/c']) scene.follow(name)
    expect(scene.looks).toBe(1)
    scene.look()
    expect(scene.told).toEqual(['none/a', 'none/b', 'nowhere/c'])
  }),
)

it(
  'growth is told at once, in whatever folder, and only to those who follow that log',
  inScene(async ({ home, told, follow, heard }) => {
    for (const folder of ['one', 'two']) mkdirSync(join(home, folder))
    // The same name in two folders is two logs.
    const names = ['one/stdout.log', 'two/stdout.log', 'two/other.log']
    for (const name of names) appendFileSync(join(home, name), '')
    for (const name of names) follow(name)
    const growth = heard('two/stdout.log')
    appendFileSync(join(home, 'two/stdout.log'), 'line\n')
    await growth
    expect(told.filter((name) => name !== 'two/stdout.log')).toEqual([])
  }),
)

it(
  'a folder has one watch for all of its logs, which goes with the last of them',
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
  'a folder that comes later, or goes and comes again, is watched from the next slow look on',
  inScene(async ({ home, follow, heard, look }) => {
    const before = watches()
    const path = follow('logs/a')
    for (const _ of ['comes', 'comes again']) {
      mkdirSync(join(home, 'logs'))
      // That the old folder is gone is told by an event, too.
      const isWatched = (): boolean => {
        look()
        return watches() - before === 1
      }
      await waitUntil(isWatched, 10_000, 'the folder is watched')
      const growth = heard('logs/a')
      appendFileSync(path, 'line\n')
      await growth
      rmSync(join(home, 'logs'), { recursive: true })
      expect(watches()).toBe(before)
    }
  }),
)

it(
  'more folders than there may be watches are looked at slowly',
  inScene(({ home, told, follow, look }) => {
    const before = watches()
    const names = Array.from({ length: 1_010 }, (_, index) => `${index}/a`)
    for (const name of names) mkdirSync(join(home, name.slice(0, -2)))
    for (const name of names) follow(name)
    expect(watches() - before).toBe(1_000)
    look()
    expect(told).toEqual(names)
  }),
)
