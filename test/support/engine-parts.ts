import type { Engine } from '../../src/core/engine/api.ts'
import { SupervisorEngine } from '../../src/core/engine/engine.ts'
import type { EngineParts } from '../../src/core/engine/parts.ts'

/** The internal parts of an engine, for tests that read or replace them. The program itself cannot reach them. */
export function partsOf(engine: Engine): EngineParts {
  if (!(engine instanceof SupervisorEngine)) throw new Error('This engine was not made by createEngine.')
  return engine.parts
}
