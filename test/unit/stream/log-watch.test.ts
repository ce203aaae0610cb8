import { join } from 'node:path'
import { expect, it } from 'vitest'
import { realClock } from '../../../src/resources/clock.ts'
import { LogWatch } from '../../../src/stream/log-watch.ts'
import { temporaryHome } from '../../support/home.ts'

it('without a watch of the kernel there is one slow look at all logs, however many are followed', () => {
  const looks: (() => void)[] = []
  const clock = { ...realClock, every: (_ms: number, _signal: AbortSignal, look: () => void) => void looks.push(look) }
  using watch = new LogWatch(join(temporaryHome(), 'none'), clock)
  const told: string[] = []
  for (const name of ['a', 'b', 'c']) watch.add(name, () => told.push(name))
  expect(looks).toHaveLength(1)
  looks[0]?.()
  expect(told).toEqual(['a', 'b', 'c'])
})
