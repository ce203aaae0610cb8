import { afterAll, beforeAll, expect, test } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { compose } from '../../src/main.ts'
import { AwsWorld } from '../support/aws/world.ts'
import { installationOf } from '../support/ledger-file.ts'
import { needs } from '../support/real.ts'
import { waitUntil } from '../support/world.ts'
import type { Moment } from './job.ts'
import { at, describeCrash, untilOneFinishes } from './matrix.ts'
import { Place } from './place.ts'
import { buildDriver, type DriverEnd, type Program, runDriver } from './program.ts'

/** G9 for an agent on ECS: after a supervisor was killed at any effect of a launch or a close, a recovery cleans up the account. */

needs('moto', 'cgroup')

const moments: readonly Moment[] = ['before', 'during']
const timeout = 300_000

let program: Program
let world: AwsWorld
const covered: string[] = []

beforeAll(async () => {
  ;[program, world] = await Promise.all([buildDriver(), AwsWorld.start({ startMs: 20, stopMs: 20 })])
  world.targets.drainMs = 20
  world.becomeEnvironment()
})

afterAll(async () => {
  program[Symbol.dispose]()
  await world[Symbol.asyncDispose]()
  console.log(`Crash points of an agent on ECS: ${covered.join(', ')}`)
})

/** Settings with a prefix per crash point, so that many points share one account. */
function settingsOf(prefix: string): Readonly<Record<string, string>> {
  const camel = (name: string): string => name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())
  return Object.fromEntries(Object.entries(world.flags({ 'ecs-prefix': prefix })).map(([name, value]) => [camel(name), value]))
}

async function recover(place: Place, settings: Readonly<Record<string, string>>): Promise<readonly string[]> {
  const config = loadConfig({ flags: new Map(Object.entries({ home: place.home, logLevel: 'silent', ...settings })) })
  const times = { settleMs: 300, firstObserveDelayMs: 20, longestObserveDelayMs: 200 }
  const wrap = <T extends object>(name: string, port: T): T => (name === 'aws-times' ? { ...port, ...times } : port)
  const { engine, close } = await compose(config, { watched: false, wrap })
  await engine.begin()
  const { reports, unknown, errors } = await engine.recover()
  await engine.shutDown()
  await close()
  return [...reports.filter((report) => !report.success).map((report) => JSON.stringify(report.errors)), ...unknown, ...errors]
}

/** AWS resources of one installation that still exist, read from the simulated account. */
async function left(installation: string | undefined, prefix: string): Promise<readonly string[]> {
  const tasks = [...world.tasks.all.values()].filter(({ tags }) =>
    tags.some(({ key, value }) => key === 'ebb:installation' && value === installation),
  )
  const addresses = new Set(tasks.map(({ address }) => address))
  return [
    ...tasks.filter(({ status }) => status !== 'STOPPED').map(({ arn, status }) => `task ${arn} ${status}`),
    ...[...world.targets.all.values()]
      .filter(({ address }) => addresses.has(address))
      .map(({ address, state }) => `target ${address} ${state}`),
    ...(await world.objects(`${prefix}/leases/`)).map(({ key }) => `lease ${key}`),
    ...(await world.openUploads()).filter((key) => key.startsWith(`${prefix}/`)).map((key) => `parts ${key}`),
  ]
}

let points = 0

async function crashAndRecover(k: number, when: Moment): Promise<DriverEnd> {
  points += 1
  const prefix = `point-${points}`
  const place = new Place()
  const settings = settingsOf(prefix)
  const crash = { at: k, when }
  const { home, workspace, temp } = place
  const end = await runDriver(program, { role: 'ecs', home, workspace, temp, containment: 'cgroup', watched: false, crash, settings })
  await at(describeCrash(crash, end), async () => {
    const installation = installationOf(home)
    if (end.isKilled) expect(await recover(place, settings)).toEqual([])
    await place.becomesClean(5_000)
    await waitUntil(() => left(installation, prefix), 5_000, 'the account is clean')
    // The output before the crash is in the bucket, if the launch got as far as its logs.
    if (end.isReady)
      expect((await world.objects(`${prefix}/results/`)).map(({ key }) => key.split('/').at(-1))).toEqual(['stderr.log', 'stdout.log'])
  })
  place.remove()
  return end
}

test.each(moments)('ecs: a supervisor killed %s any effect of an agent is recovered', { timeout }, async (when) => {
  covered.push(`${when} ${await untilOneFinishes((k) => crashAndRecover(k, when))}`)
})
