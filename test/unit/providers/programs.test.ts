import { expect, it } from 'vitest'
import { installed } from '../../../src/providers/all.ts'
import { agentPrograms } from '../../../src/providers/programs.ts'

it('the programs that ebb exec knows by name are those of the installed providers', () => {
  expect([...agentPrograms].sort()).toEqual(installed.map(({ program }) => program).sort())
})
