import { text } from 'node:stream/consumers'
import { benchBaseline } from '../baselines/baselines.ts'
import { named } from './catalogue.ts'
import { measure } from './measurement.ts'
import type { Order } from './order.ts'
import { Place } from './place.ts'
import { programs } from './programs.ts'
import { ways } from './ways.ts'

/**
 * The program of one measurement process, which has its own network and cgroup. Its parent (host.ts) ends everything that the measured way
 * leaves. The order, which says what to measure, comes on standard input, so that the mark is not in the arguments of this process. The
 * answer is one line of JSON.
 */

const order = JSON.parse(await text(process.stdin)) as Order
const answer = await (order.kind === 'cell' ? cell(order) : benchBaseline(order))
process.stdout.write(`${JSON.stringify(answer)}\n`)
// The measured program may have left a child that holds a pipe of this process. Without this exit, the pipe would keep this process
// running.
process.exit(0)

async function cell({ way, program, base, mark }: Order): Promise<unknown> {
  using place = new Place(base, mark)
  return await measure(named(ways, way), named(programs, program), place)
}
