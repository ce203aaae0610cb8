import { processesWhere, type Seen } from '../../support/world.ts'

/** Processes with this name as one of their arguments, not merely as a part of one. */
export function named(name: string): readonly Seen[] {
  return processesWhere(({ argv }) => argv.split('\0').includes(name))
}
