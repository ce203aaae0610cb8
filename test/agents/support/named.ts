import { processesWhere, type Seen } from '../../support/world.ts'

/** One of its arguments is this name, and not merely has it inside. */
export function named(name: string): readonly Seen[] {
  return processesWhere(({ argv }) => argv.split('\0').includes(name))
}
