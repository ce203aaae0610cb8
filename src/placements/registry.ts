import type { Agent } from '../core/model/agent.ts'
import type { Placement, PlacementTable, TerminalPlace } from '../core/ports/placement.ts'
import type { OptionTable, PlacementDefinition, PlacementParts, SettingsOf, TerminalDefinition } from './definition.ts'
import { docker } from './docker/definition.ts'
import { ecs } from './ecs/definition.ts'
import { processes } from './process/definition.ts'
import { remote } from './remote/definition.ts'
import { tmux } from './tmux/definition.ts'

/** Every placement. A new one is a folder with a definition, and a line here. */
const definitions = [processes, tmux, docker, ecs, remote] as const

type Definition = (typeof definitions)[number]
type Merged<T> = (T extends unknown ? (one: T) => void : never) extends (all: infer All) => void ? All : never

/** The options of all placements, by key. */
export const placementOptions = Object.assign({}, ...definitions.map(({ options }) => options)) as Merged<Definition['options']>

export const placementNames: readonly string[] = definitions.map(({ name }) => name)

/** A configuration: the settings of all placements are among its own. */
type Settings = SettingsOf<typeof placementOptions>

const all = definitions as readonly unknown[] as readonly PlacementDefinition<OptionTable>[]

export const placementTable: PlacementTable = new Map(
  all.map(({ name, isRemote, terminal }) => [name, { isRemote, hasTerminal: terminal !== undefined }]),
)

export function terminalOf(placement: string): TerminalDefinition | undefined {
  return all.find(({ name }) => name === placement)?.terminal
}

/** Where the terminal of an agent is. Undefined when the agent's placement has none. */
export function terminalPlaceOf(home: string, { name, placement }: Pick<Agent, 'name' | 'placement'>): TerminalPlace | undefined {
  return name === undefined ? undefined : terminalOf(placement)?.place(home, name)
}

function isConfigured({ requires }: PlacementDefinition, settings: Settings): boolean {
  return requires === undefined || settings[requires.option as keyof Settings] !== undefined
}

export async function openPlacements(settings: Settings, parts: PlacementParts): Promise<readonly Placement[]> {
  return await Promise.all(all.filter((one) => isConfigured(one, settings)).map((one) => one.open(settings, parts)))
}

/**
 * The option that a launch into this placement requires, in the spelling of a configuration file. Undefined when the placement requires
 * none.
 */
export function missingSetting(placement: string): string | undefined {
  const requires = all.find(({ name }) => name === placement)?.requires
  return requires && inFile(placement, requires.option)
}

/** Variables for the recovery by a sentinel. */
export function recoveryEnvironment(settings: Settings, environment: Readonly<Record<string, string>>): Record<string, string> {
  const entries = all.flatMap((one) => Object.entries(one.recoveryEnvironment?.(settings, environment) ?? {}))
  return Object.fromEntries(entries.filter((entry): entry is [string, string] => entry[1] !== undefined))
}

/** Settings that have no effect, because their placement is not configured: the option that it requires is missing. */
export function unusedSettings(settings: Settings): readonly { readonly setting: string; readonly says: string }[] {
  return all.flatMap((one) => {
    const { name, options, requires } = one
    if (!requires || isConfigured(one, settings)) return []
    const given = Object.entries(options).filter(([key, { fallback }]) => settings[key as keyof Settings] !== fallback)
    if (given.length === 0) return []
    const setting = inFile(name, requires.option)
    const keys = given.map(([key]) => inFile(name, key)).join(' and ')
    const are = given.length === 1 ? 'is' : 'are'
    return [{ setting, says: `${keys} ${are} set, but the placement ${name} needs ${setting}, ${requires.what}.` }]
  })
}

/** The name of an option in a configuration file: `dockerImage` becomes `docker.image`. */
function inFile(placement: string, key: string): string {
  return `${placement}.${key.charAt(placement.length).toLowerCase()}${key.slice(placement.length + 1)}`
}
