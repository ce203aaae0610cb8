import type { Supervisor } from '../src/supervisor.ts'
import { type Row, sideBySide, timed } from './measure.ts'
import { populated, rawStart, rawStop } from './raw.ts'
import { launch, withSupervisor } from './supervisor.ts'

const placeOf = (supervisor: Supervisor, scopeId: string): string => {
  const [entry] = supervisor.engine.inspect(scopeId)?.resources.values() ?? []
  if (!entry) throw new Error(`Scope ${scopeId} has no tree.`)
  return (entry.intent.spec as { place: string }).place + entry.intent.id
}

async function compare(
  supervisor: Supervisor,
  rounds: number,
  argv: readonly string[],
  processes: number,
  graceMs?: number,
): Promise<{ baseline: number; ebb: number }> {
  return await sideBySide(
    rounds,
    async () => {
      const tree = rawStart(argv)
      await populated(tree.directory, processes)
      return await timed(() => rawStop(tree))
    },
    async () => {
      const { scope } = await launch(supervisor, argv)
      await populated(placeOf(supervisor, scope.id), processes)
      return await timed(async () => {
        const report = await supervisor.engine.close(scope.id, {
          trigger: 'terminated',
          forget: true,
          ...(graceMs !== undefined && { graceMs }),
        })
        if (!report.success) throw new Error(report.errors.join('; '))
      })
    },
  )
}

export async function benchStop(): Promise<readonly Row[]> {
  return await withSupervisor(async (supervisor) => {
    const one = await compare(supervisor, 20, ['sleep', '1000'], 1)
    const many = await compare(supervisor, 5, ['sh', '-c', 'i=0; while [ $i -lt 999 ]; do sleep 1000 & i=$((i+1)); done; wait'], 1_000)
    const graceMs = 300
    const ignoring = await compare(supervisor, 5, ['sh', '-c', "trap '' TERM; while :; do sleep 1000; done"], 2, graceMs)
    return [
      { name: 'proven stop, one process', ...one, unit: 'ms', claim: 'within 10 ms of raw', kept: one.ebb - one.baseline <= 10 },
      { name: 'proven stop, 1,000 processes', ...many, unit: 'ms', claim: 'at most 1.5 × raw', kept: many.ebb <= 1.5 * many.baseline },
      {
        name: `stop of a process that ignores SIGTERM, grace ${graceMs} ms`,
        baseline: graceMs,
        ebb: ignoring.ebb,
        unit: 'ms',
        claim: 'grace + 50 ms',
        kept: ignoring.ebb <= graceMs + 50,
      },
    ]
  })
}
