import { expect, it } from 'vitest'
import { soak } from '../../bench/soak.ts'

it('a hundred short agents later the server holds what it held before', async () => {
  const { problems, agents } = await soak({ agents: 100, durationMs: 0 })
  expect({ problems, agents }).toEqual({ problems: [], agents: 100 })
})
