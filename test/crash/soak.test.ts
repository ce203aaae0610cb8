import { expect, it } from 'vitest'
import { soak } from '../../bench/soak.ts'

it('soak: after a hundred short agents the server holds no more resources than before', async () => {
  const { problems, agents } = await soak({ agents: 100, durationMs: 0 })
  expect({ problems, agents }).toEqual({ problems: [], agents: 100 })
})
