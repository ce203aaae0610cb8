import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Frame, flameGraph } from './flame.ts'
import { type BenchServer, reset, withServer } from './server.ts'

/**
 * `npm run profile [name…]` profiles the server in launches, stops, resets and streaming. It prints the most expensive functions, and writes a flame
 * graph and a `.cpuprofile` for each workload into `bench/results/profile/`.
 */

const rounds = 150

const workloads: Readonly<Record<string, (server: BenchServer) => Promise<void>>> = {
  launch: async (server) => {
    for (let round = 0; round < rounds; round++) await server.launch(['sleep', '1000'])
  },
  stop: async (server) => {
    for (let round = 0; round < rounds; round++) await server.remove(await server.launch(['sleep', '1000']))
  },
  reset: async (server) => {
    for (let round = 0; round < rounds / 5; round++) {
      const ids = await Promise.all(Array.from({ length: 5 }, () => server.launch(['sh', '-c', 'seq 25; exec sleep 1000'])))
      await Promise.all(ids.map((id) => server.hasMessages(id, 26)))
      await reset(server)
    }
  },
  stream: async (server) => {
    const id = await server.launch(['sh', '-c', 'seq 400000'])
    await server.hasMessages(id, 400_001)
  },
}

interface Profile {
  readonly nodes: readonly {
    readonly id: number
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number }
    readonly children?: readonly number[]
  }[]
  readonly samples: readonly number[]
  readonly timeDeltas: readonly number[]
}

const results = join(import.meta.dirname, 'results', 'profile')
mkdirSync(results, { recursive: true })
const wanted = process.argv.slice(2)
for (const [name, workload] of Object.entries(workloads)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue
  const folder = join(results, `${name}.tmp`)
  process.env.NODE_OPTIONS = `--cpu-prof --cpu-prof-interval=200 --cpu-prof-dir=${folder}`
  await withServer(workload)
  delete process.env.NODE_OPTIONS
  const [file = ''] = readdirSync(folder)
  const profile = JSON.parse(readFileSync(join(folder, file), 'utf8')) as Profile
  rmSync(folder, { recursive: true })
  const root = framesOf(profile)
  writeFileSync(join(results, `${name}.cpuprofile`), JSON.stringify(profile))
  writeFileSync(join(results, `${name}.svg`), flameGraph(name, root))
  console.log(`\n${name}: ${(root.totalUs / 1_000).toFixed(0)} ms busy\n${hottest(root)}`)
}

/** The call tree with the time of each call, without idle time. */
function framesOf({ nodes, samples, timeDeltas }: Profile): Frame {
  const selfUs = new Map<number, number>()
  for (const [index, id] of samples.entries()) selfUs.set(id, (selfUs.get(id) ?? 0) + (timeDeltas[index] ?? 0))
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const frame = (id: number): Frame => {
    const node = byId.get(id)
    const { functionName = '', url = '', lineNumber = 0 } = node?.callFrame ?? {}
    const children = (node?.children ?? []).map(frame).filter(({ name, totalUs }) => totalUs > 0 && name !== '(idle)')
    const own = selfUs.get(id) ?? 0
    const place = url === '' ? '' : ` ${url.slice(url.lastIndexOf('/') + 1)}:${lineNumber + 1}`
    return {
      name: `${functionName || '(anonymous)'}${place}`,
      selfUs: own,
      totalUs: own + children.reduce((sum, { totalUs }) => sum + totalUs, 0),
      children,
    }
  }
  return frame(nodes[0]?.id ?? 0)
}

function hottest(root: Frame): string {
  const byName = new Map<string, number>()
  const walk = ({ name, selfUs, children }: Frame): void => {
    byName.set(name, (byName.get(name) ?? 0) + selfUs)
    children.forEach(walk)
  }
  walk(root)
  return [...byName]
    .sort(([, a], [, b]) => b - a)
    .slice(0, 30)
    .map(([name, us]) => `${((us / root.totalUs) * 100).toFixed(1).padStart(5)} %  ${(us / 1_000).toFixed(0).padStart(6)} ms  ${name}`)
    .join('\n')
}
