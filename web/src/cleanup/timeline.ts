import type { ReleaseState, ResourceProgress } from '../../../src/core/model/progress.ts'
import type { ResourceReport } from '../../../src/core/model/report.ts'

/** A close as rows on a time axis: a pure function of what the server told. Milliseconds count from the start of the close. */

export type Phase = 'waiting' | 'looking' | 'obligations' | 'polite' | 'terminate' | 'kill' | 'removed'

/**
 * Of these something is killed that runs; the last step for anything else, such as a log, or a tmux session when what ran in it is
 * gone, takes it away and hurts nobody.
 */
const livingKinds: ReadonlySet<string> = new Set(['process-tree', 'container-run', 'remote-agent', 'ecs-task'])

const phaseOf = (kind: string, step: Phase): Phase => (step === 'kill' && !livingKinds.has(kind) ? 'removed' : step)

export interface Piece {
  readonly phase: Phase
  readonly fromMs: number
  /** Undefined while it goes on. */
  readonly toMs: number | undefined
}

export interface Row {
  readonly key: string
  readonly kind: string
  readonly name: string
  readonly group: string
  readonly groupKind: string
  readonly state: ReleaseState
  readonly pieces: readonly Piece[]
  /** Of those that it waited for: what depends on it. */
  readonly waitedFor: readonly string[]
  readonly proof: ResourceReport['proof']
  readonly error: string | undefined
  readonly notes: readonly string[]
}

type Resource = ResourceReport | ResourceProgress

/** In the order of their turns, also before those have come, so that nothing jumps when the report does. */
export function rowsOf(
  startedAt: string,
  resources: readonly Resource[],
  scope: { readonly kind: string; readonly id: string },
): readonly Row[] {
  const names = new Map(resources.map((one, index) => [keyOf(one, index), one.name]))
  const dependents = new Map<string, string[]>()
  for (const [index, one] of resources.entries())
    for (const id of one.dependsOn ?? []) dependents.set(id, [...(dependents.get(id) ?? []), keyOf(one, index)])
  const turns = new Map<string, number>()
  for (const key of names.keys()) turnOf(key, dependents, turns)
  const rows = resources.map((one, index) => {
    const key = keyOf(one, index)
    return {
      key,
      kind: one.kind,
      name: one.name,
      group: one.scope?.id ?? scope.id,
      groupKind: one.scope?.kind ?? scope.kind,
      state: 'outcome' in one ? one.outcome : one.state,
      pieces: piecesOf(Date.parse(startedAt), one),
      waitedFor: (dependents.get(key) ?? []).map((id) => names.get(id) ?? id),
      proof: one.proof,
      error: one.error,
      notes: one.notes ?? [],
    }
  })
  return rows.toSorted((a, b) => (turns.get(a.key) ?? 0) - (turns.get(b.key) ?? 0))
}

/** After how many others its turn comes at the earliest; what goes in a circle comes when it is met. */
function turnOf(key: string, dependents: ReadonlyMap<string, readonly string[]>, known: Map<string, number>): number {
  const found = known.get(key)
  if (found !== undefined) return found
  known.set(key, 0)
  const turn = Math.max(0, ...(dependents.get(key) ?? []).map((id) => 1 + turnOf(id, dependents, known)))
  known.set(key, turn)
  return turn
}

function keyOf({ id, kind, name }: Resource, index: number): string {
  return id ?? `${kind} ${name} ${index}`
}

const underWay: readonly string[] = ['looking', 'obligations', 'polite', 'terminate', 'kill'] satisfies readonly Phase[]

function piecesOf(zeroMs: number, one: Resource): readonly Piece[] {
  const at = (instant: string): number => Math.max(0, Date.parse(instant) - zeroMs)
  const marked = [
    ...(one.obligations ? [{ phase: 'obligations' as const, ...one.obligations }] : []),
    ...one.steps.map(({ step, at: began, took }) => ({ phase: phaseOf(one.kind, step), at: began, took })),
  ]
  const first = one.startedAt ?? marked[0]?.at
  const last = one.endedAt ?? one.proof?.at
  if (first === undefined) {
    // Its turn never came: it waited to the end, or waits still.
    const isOver = last !== undefined
    return [{ phase: 'waiting', fromMs: 0, toMs: isOver ? at(last) : undefined }]
  }
  const pieces: Piece[] = []
  const add = (phase: Phase, fromMs: number, toMs: number | undefined): void => {
    if (toMs === undefined || toMs > fromMs) pieces.push({ phase, fromMs, toMs })
  }
  add('waiting', 0, at(first))
  let cursor = at(first)
  for (const { phase, at: began, took } of marked) {
    const from = Math.max(cursor, at(began))
    add('looking', cursor, from)
    // Of a step that took no time there is still something to see.
    pieces.push({ phase, fromMs: from, toMs: from + took })
    cursor = Math.max(cursor, from + took)
  }
  if (last !== undefined) add('looking', cursor, at(last))
  else if ('since' in one && underWay.includes(one.state)) {
    const since = Math.max(cursor, at(one.since))
    if (one.state !== 'looking') add('looking', cursor, since)
    add(phaseOf(one.kind, one.state as Phase), one.state === 'looking' ? cursor : since, undefined)
  }
  return pieces
}

export interface Group {
  readonly key: string
  readonly kind: string
  readonly rows: readonly Row[]
}

export function groupsOf(rows: readonly Row[]): readonly Group[] {
  const groups = new Map<string, Row[]>()
  for (const row of rows) groups.set(`${row.groupKind} ${row.group}`, [...(groups.get(`${row.groupKind} ${row.group}`) ?? []), row])
  return [...groups].map(([, own]) => ({ key: own[0]?.group ?? '', kind: own[0]?.groupKind ?? '', rows: own }))
}

export const isOver = (state: ReleaseState): boolean => !isUnderWay(state)
const isUnderWay = (state: ReleaseState): boolean => state === 'waiting' || underWay.includes(state)

/** A word was not enough: the kill came after another step. */
export function neededKill({ pieces }: Pick<Row, 'pieces'>): boolean {
  const steps = pieces.filter(({ phase }) => phase === 'polite' || phase === 'terminate' || phase === 'kill')
  return steps.length > 1 && steps.at(-1)?.phase === 'kill'
}

/** When it was over, or undefined while it is not. */
export function endOf({ pieces }: Pick<Row, 'pieces'>): number | undefined {
  return pieces.some(({ toMs }) => toMs === undefined) ? undefined : Math.max(0, ...pieces.map(({ toMs }) => toMs ?? 0))
}

/** Where the axis has its lines: about five, at round numbers. */
export function ticksOf(totalMs: number): readonly number[] {
  if (!(totalMs > 0)) return [0]
  const rough = totalMs / 5
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough) ?? rough
  return Array.from({ length: Math.floor(totalMs / step) + 1 }, (_, index) => index * step)
}
