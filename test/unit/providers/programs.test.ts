import { expect, it } from 'vitest'
import { installed } from '../../../src/providers/all.ts'
import { agentPrograms } from '../../../src/providers/programs.ts'

it('agentPrograms: has the programs of the installed providers', () => {
  expect([...agentPrograms].sort()).toEqual(installed.map(({ program }) => program).sort())
})
