import { expect, it, vi } from 'vitest'
import type { Control } from '../../../src/control.ts'
import type { ProviderCatalogue } from '../../../src/core/ports/provider.ts'
import type { Vitals } from '../../../src/server/http/routes/server.ts'

/** A placement is one definition and one line in placements/all.ts: everything else follows from the definition. */

vi.mock('../../../src/placements/all.ts', async (original) => {
  const { option, parseText } = await import('../../../src/config/option.ts')
  const { definePlacement } = await import('../../../src/placements/definition.ts')
  const { label } = await import('../../../src/core/ports/handles.ts')
  const { kindName, planned } = await import('../../../src/core/ports/kind.ts')
  const crater = kindName<{ spec: string | undefined }>('crater')
  const moon = definePlacement({
    name: 'moon',
    labels: { title: 'The moon', waitsFor: 'the rocket', resources: { crater: { title: 'Crater', endsProcesses: true } } },
    isRemote: true,
    hasHost: true,
    options: { moonBase: option<string | undefined>('BASE', 'the base in which agents run', undefined, parseText) },
    requires: { option: 'moonBase', what: 'a base' },
    terminal: {
      detachKeys: 'Ctrl-M',
      place: (home, agentName) => ({ session: agentName, socket: `${home}/moon` }),
      attachment: async () => ({ argv: ['true'], environment: {} }),
    },
    recoveryEnvironment: ({ moonBase }) => ({ EBB_MOON_BASE: moonBase }),
    open: async ({ moonBase }) => ({
      name: 'moon',
      kinds: [],
      plan: () => [planned({ label: label('crater'), kind: crater, spec: moonBase })],
    }),
  })
  const { definitions } = await original<typeof import('../../../src/placements/all.ts')>()
  return { definitions: [...definitions, moon] }
})

const registry = await import('../../../src/placements/registry.ts')
const { loadConfig } = await import('../../../src/config/config.ts')
const { renderHelp } = await import('../../../src/cli/help.ts')

const configOf = (flags: Readonly<Record<string, string>>, env: Readonly<Record<string, string>> = {}) =>
  loadConfig({ flags: new Map(Object.entries(flags)), env: { HOME: '/nowhere', ...env } })

it('a new placement: its options are flags, variables and documented settings', async () => {
  const { options } = await import('../../../src/config/options.ts')
  expect(configOf({ moonBase: 'tycho' })).toMatchObject({ moonBase: 'tycho' })
  expect(configOf({}, { EBB_MOON_BASE: 'tycho' })).toMatchObject({ moonBase: 'tycho' })
  expect(options).toMatchObject({ moonBase: { help: 'the base in which agents run' } })
  expect(options.placement.placeholder).toMatch(/\|moon$/)
  const { definition: serve } = await import('../../../src/cli/commands/serve.ts')
  expect(renderHelp([serve], 'serve')).toMatch(/--moon-base BASE +the base in which agents run/)
})

it('a new placement: its traits and labels are in the table, and its setting in errors and in the environment of a recovery', () => {
  expect(registry.placementTable.get('moon')).toEqual({
    labels: expect.objectContaining({ title: 'The moon', waitsFor: 'the rocket' }),
    isRemote: true,
    hasTerminal: true,
    hasHost: true,
    needs: { setting: 'moon.base', what: 'a base' },
  })
  expect(new Map(registry.placementKindLabels).get('crater')).toEqual({ title: 'Crater', endsProcesses: true })
  const config = configOf({ moonBase: 'tycho' })
  expect(registry.recoveryEnvironment(config, {})).toMatchObject({ EBB_MOON_BASE: 'tycho' })
})

it('a new placement: GET /api/placements gives its name and labels to the dashboard', async () => {
  const { serverRoutes } = await import('../../../src/server/http/routes/server.ts')
  const control = { placementTable: registry.placementTable, kindLabels: new Map(registry.placementKindLabels) } as unknown as Control
  const routes = serverRoutes(control, {} as ProviderCatalogue, { placements: ['moon'] } as unknown as Vitals)
  const route = routes.find(({ path }) => path === '/placements')
  const answer = (await route?.handle({} as Parameters<typeof route.handle>[0])) as Record<string, readonly object[]>
  const traits = { isAvailable: true, isDefault: false, isRemote: true, hasTerminal: true, hasHost: true }
  const needs = { setting: 'moon.base', what: 'a base' }
  expect(answer.placements).toContainEqual({ name: 'moon', title: 'The moon', ...traits, needs })
  expect(answer.kinds).toContainEqual({ name: 'crater', title: 'Crater', endsProcesses: true, isOnOtherHost: false })
  expect(route?.answers[200]?.parse(answer)).toEqual(answer)
})

it('a new placement: ebb attach and the answers of MCP find its terminal', async () => {
  expect(registry.terminalPlaceOf('/home', { name: 'a', placement: 'moon' })).toEqual({ session: 'a', socket: '/home/moon' })
  expect(registry.terminalPlaceOf('/home', { name: 'a', placement: 'process' })).toBeUndefined()
  const { definition: attach } = await import('../../../src/cli/commands/attach.ts')
  expect(attach.summary).toContain('Ctrl-M (The moon)')
})
