import type { Endings } from '../ports/endings.ts'
import type { Sentinel } from '../ports/host.ts'
import type { Kinds } from '../ports/kind.ts'
import type { Ledger } from '../ports/ledger.ts'
import type { Runtime } from '../ports/runtime.ts'
import type { Adopter, ReaperSettings, Recovery } from './api.ts'
import type { CloseOperation } from './close-operation.ts'
import type { EngineEvents } from './events.ts'
import type { ScopeRegistry } from './scope-registry.ts'

/** What the engine is given. It knows no kind, no store and no process by name. */
export interface EngineDeps extends Runtime {
  readonly ledger: Ledger
  readonly kinds: Kinds
  readonly sentinel: Sentinel
  readonly endings?: Endings
  /** At an exit, an obligation that cannot be met in time is given up instead of held back. */
  readonly givesUpAtExit?: boolean
  /** Takes over agents that outlived their supervisor. Without an adopter, a recovery leaves such agents to a process that has one. */
  readonly adopter?: Adopter
  readonly reaper: ReaperSettings
}

/** The state that the engine's own functions share. Nothing outside `engine/` uses it. */
export interface EngineParts extends Omit<EngineDeps, 'endings' | 'adopter'> {
  readonly endings: Endings
  readonly registry: ScopeRegistry
  readonly operations: Map<string, CloseOperation>
  readonly events: EngineEvents
  /** The recovery that runs now, or waits until another one has ended; and the adopter, until this process begins to leave. */
  readonly running: { recovery?: { readonly result: Promise<Recovery>; readonly releasesClaims: boolean }; adopter?: Adopter }
}

/**
 * Removes what the resources of an incarnation shared, such as a cgroup. Called after the last of these resources is gone and before the
 * incarnation is retired.
 */
export async function tidy({ kinds, clock }: EngineParts, incarnation: string): Promise<void> {
  const ctx = { signal: new AbortController().signal, clock }
  for (const kind of kinds.values()) await kind.tidy?.(incarnation, ctx)
}
