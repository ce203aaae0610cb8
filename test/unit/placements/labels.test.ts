import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../../src/config/config.ts'
import { realClock } from '../../../src/host/clock.ts'
import { realEffects } from '../../../src/host/effects.ts'
import { procTable } from '../../../src/host/processes/proc.ts'
import { definitions } from '../../../src/placements/all.ts'
import type { PlacementParts } from '../../../src/placements/definition.ts'
import type { LaunchContext } from '../../../src/placements/files.ts'
import { openPlacements, placementKindLabels } from '../../../src/placements/registry.ts'

const labels = new Map(placementKindLabels)

/** The parts that a placement uses when it is opened. The others are for launches. */
const parts = {
  clock: realClock,
  effects: realEffects,
  processes: procTable,
  context: { home: '/home', installation: 'i' } as LaunchContext,
  environment: {},
  agentEnvironment: {},
  wrap: (_name, port) => port,
} as PlacementParts

describe('labels of placements', () => {
  it('labels: a definition names each kind that its placement brings, and no other', async () => {
    const flags = new Map(Object.entries({ dockerImage: 'i', ecsCluster: 'c', remoteUrl: 'http://127.0.0.1:1' }))
    const opened = await openPlacements(loadConfig({ flags, env: { HOME: '/nowhere' } }), parts)
    expect(opened.map(({ name }) => name)).toEqual(definitions.map(({ name }) => name))
    expect(new Set(opened.flatMap(({ kinds }) => kinds.map(({ kind }) => kind)))).toEqual(new Set(labels.keys()))
  })

  it('labels: no title is given twice, because the dashboard shows nothing else of a kind', () => {
    const titles = [...labels.values()].map(({ title }) => title)
    expect(new Set(titles).size).toBe(titles.length)
    expect(new Set(definitions.map(({ labels: { title } }) => title)).size).toBe(definitions.length)
  })

  it('labels: the kinds whose release ends processes, and those on another host', () => {
    const named = (of: 'endsProcesses' | 'isOnOtherHost'): readonly string[] =>
      [...labels].filter(([, label]) => label[of]).map(([kind]) => kind)
    expect(named('endsProcesses')).toEqual(['container-run', 'ecs-task', 'remote-agent'])
    expect(named('isOnOtherHost')).toEqual(['ecs-task', 'remote-agent'])
  })
})
