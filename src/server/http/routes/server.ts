import { z } from 'zod'
import type { Control } from '../../../control.ts'
import { within } from '../../../core/engine/race.ts'
import { defaultPlacement, type OtherHost } from '../../../core/ports/placement.ts'
import type { ProviderCatalogue } from '../../../core/ports/provider.ts'
import { type Route, route } from '../route.ts'
import * as schemas from '../schemas.ts'

export interface Vitals {
  readonly instanceId: string
  readonly startedAt: string
  readonly containment: string
  readonly version: string
  readonly hostName: string
  readonly placements: readonly string[]
  readonly hasTestRoutes: boolean
  readonly isRunner: boolean
  readonly port: () => number
  /** Problems of the sentinel and of the containment, as sentences. */
  readonly problems: () => readonly string[]
  readonly otherHosts: () => Promise<readonly OtherHost[]>
}

/** The time for the queries that count agents and resources. When they take longer, the database counts as unavailable. */
const storePatienceMs = 2_000

export function serverRoutes(control: Control, catalogue: ProviderCatalogue, vitals: Vitals): readonly Route[] {
  const otherHosts = shared(() => vitals.otherHosts())
  return [
    route({
      method: 'GET',
      path: '/health',
      summary: 'Get the health of the server; 503 when its store, sentinel or containment is broken',
      answers: { 200: schemas.health, 503: schemas.health },
      handle: async ({ reply }) => {
        const counted = await count(control)
        const problems = problemsOf(vitals, counted)
        if (problems.length > 0) reply.code(503)
        return {
          status: problems.length > 0 ? 'broken' : 'ok',
          pid: process.pid,
          uptime: process.uptime(),
          memoryUsage: process.memoryUsage(),
          activeAgents: control.agents.living.size,
          totalAgents: counted?.total ?? 0,
          databaseStatus: counted ? 'connected' : 'unavailable',
          startedAt: vitals.startedAt,
          port: vitals.port(),
          nodeVersion: process.version,
          instanceId: vitals.instanceId,
          containment: vitals.containment,
          stuck: counted?.stuck ?? 0,
          ...(problems.length > 0 && { problems }),
          version: vitals.version,
          host: { name: vitals.hostName, platform: process.platform },
          placements: vitals.placements,
          testEndpoints: vitals.hasTestRoutes,
          runner: vitals.isRunner,
        }
      },
    }),
    route({
      method: 'GET',
      path: '/hosts',
      summary: 'List the hosts on which agents of this server run: this host, and the runner at remote.url, observed now',
      answers: { 200: z.array(schemas.host) },
      handle: async () => {
        const [counted, others] = await Promise.all([count(control), otherHosts()])
        const problems = problemsOf(vitals, counted)
        const own = {
          name: vitals.hostName,
          role: 'control',
          status: problems.length > 0 ? 'broken' : 'well',
          ...(problems.length > 0 && { says: problems.join(' ') }),
          activeAgents: control.agents.living.size,
          containment: vitals.containment,
        }
        return [own, ...others]
      },
    }),
    route({
      method: 'GET',
      path: '/placements',
      summary: 'List the placements and the kinds of resources that this version knows, with their names for people',
      answers: { 200: schemas.placements },
      handle: async () => ({
        placements: [...control.placementTable].map(([name, { labels, ...traits }]) => ({
          name,
          title: labels.title,
          isAvailable: vitals.placements.includes(name),
          isDefault: name === defaultPlacement,
          ...traits,
        })),
        kinds: [...control.kindLabels].map(([name, { title, endsProcesses = false, isOnOtherHost = false }]) => ({
          name,
          title,
          endsProcesses,
          isOnOtherHost,
        })),
      }),
    }),
    route({
      method: 'GET',
      path: '/providers',
      summary: 'List the providers, and which of them are installed',
      answers: { 200: schemas.providers },
      handle: async () => {
        const providers = await catalogue.describe()
        return { totalCount: providers.length, providers }
      },
    }),
  ]
}

/** Concurrent callers share one result, so that many open pages cause one call at a runner. */
function shared<T>(load: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined
  return () => {
    running ??= load().finally(() => {
      running = undefined
    })
    return running
  }
}

function problemsOf(vitals: Vitals, counted: object | undefined): readonly string[] {
  return [...vitals.problems(), ...(counted ? [] : ['The database does not answer.'])]
}

async function count({ store, engine, clock }: Control): Promise<{ total: number; stuck: number } | undefined> {
  const work = Promise.all([store.totals(undefined, new Set()), engine.openResources()])
  const answer = await within(clock, storePatienceMs, work).catch(() => ({ timedOut: true }) as const)
  if (answer.timedOut) return undefined
  const [totals, resources] = answer.value
  return { total: totals.agents, stuck: resources.filter(({ state }) => state === 'stuck').length }
}
