import type { Engine } from '../../src/core/engine/api.ts'
import { SupervisorEngine } from '../../src/core/engine/engine.ts'
import type { EngineParts } from '../../src/core/engine/parts.ts'

/** The inner state of an engine, for tests that look at it or replace a part of it. The program itself cannot reach it. */
export function partsOf(engine: Engine): EngineParts {
  if (!(engine instanceof SupervisorEngine)) throw new Error('This engine was not made by createEngine.')
  return engine.parts
}
