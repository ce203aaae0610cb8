import type { Agent } from '../core/model/agent.ts'
import type { Placement, PlacementTable, TerminalPlace } from '../core/ports/placement.ts'
import { definitions } from './all.ts'
import type { OptionTable, PlacementDefinition, PlacementParts, SettingsOf, TerminalDefinition } from './definition.ts'

/** What the rest of the program knows of the placements, all from their definitions. */

type Definition = (typeof definitions)[number]
type Merged<T> = (T extends unknown ? (one: T) => void : never) extends (all: infer All) => void ? All : never

/** The options of all placements, by key. */
export const placementOptions = Object.assign({}, ...definitions.map(({ options }) => options)) as Merged<Definition['options']>

export const placementNames: readonly string[] = definitions.map(({ name }) => name)

/** The part of the configuration that has the settings of all placements. */
type Settings = SettingsOf<typeof placementOptions>

const all = definitions as readonly unknown[] as readonly PlacementDefinition<OptionTable>[]

/** The traits and labels of every placement, configured or not. */
export const placementTable: PlacementTable = new Map(
  all.map(({ name, labels, isRemote, terminal, hasHost = false, requires }) => {
    const needs = requires && { setting: inFile(name, requires.option), what: requires.what }
    return [name, { labels, isRemote, hasTerminal: terminal !== undefined, hasHost, ...(needs && { needs }) }]
  }),
)

/** The labels of the kinds that placements bring, by kind. */
export const placementKindLabels = all.flatMap(({ labels }) => Object.entries(labels.resources))

/** The keys by which a person leaves the terminals of each placement that has terminals, for help texts. */
export const detachHelp = all.flatMap(({ labels, terminal }) => (terminal ? `${terminal.detachKeys} (${labels.title})` : [])).join(', ')

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

/** Variables for the recovery by a sentinel. */
export function recoveryEnvironment(settings: Settings, environment: Readonly<Record<string, string>>): Record<string, string> {
  const entries = all.flatMap((one) => Object.entries(one.recoveryEnvironment?.(settings, environment) ?? {}))
  return Object.fromEntries(entries.filter((entry): entry is [string, string] => entry[1] !== undefined))
}

/** Settings that have no effect, because their placement is not configured: the option that it requires is missing. */
export function unusedSettings(settings: Settings): readonly { readonly setting: string; readonly says: string }[] {
  return all.flatMap((one) => {
    const { name, options } = one
    const needs = placementTable.get(name)?.needs
    if (!needs || isConfigured(one, settings)) return []
    const given = Object.entries(options).filter(([key, { fallback }]) => settings[key as keyof Settings] !== fallback)
    if (given.length === 0) return []
    const keys = given.map(([key]) => inFile(name, key)).join(' and ')
    const are = given.length === 1 ? 'is' : 'are'
    return [{ setting: needs.setting, says: `${keys} ${are} set, but the placement ${name} needs ${needs.setting}, ${needs.what}.` }]
  })
}

/** The name of an option in a configuration file: `dockerImage` becomes `docker.image`. */
function inFile(placement: string, key: string): string {
  return `${placement}.${key.charAt(placement.length).toLowerCase()}${key.slice(placement.length + 1)}`
}
