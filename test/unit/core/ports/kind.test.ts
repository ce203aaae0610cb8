import { describe, expect, it } from 'vitest'
import { type LogHandle, logKind, logLabels } from '../../../../src/core/ports/agent-log.ts'
import { Handles, label } from '../../../../src/core/ports/handles.ts'
import { type CreateCtx, type Created, isOfKind, kindName, type Planned, planned } from '../../../../src/core/ports/kind.ts'
import { processTreeKind, sessionLabel, type TreeHandle, treeLabel } from '../../../../src/core/ports/process.ts'

/**
 * The types of a kind travel with its name. `npm run check` compiles this file: a line after `@ts-expect-error` that compiles is an error
 * there.
 */

const logSpec = { installation: 'i', directory: '/logs', archive: '/archive/stdout.log' }
const treeSpec = { containment: 'scan', installation: 'i', program: 'sh', place: '/place/' } as const
const live = { argv: ['sh'], env: {}, cwd: '/', stdin: 'ignore', streams: [], detached: false } as const
const tree: TreeHandle = { pid: 1, exit: new Promise(() => {}) }
const log: LogHandle = { path: '/logs/a', archive: '/archive/a', done: () => {} }
const stored = { id: 'a.1', kind: 'log', spec: logSpec as unknown, detail: undefined as unknown }

describe('a planned resource', () => {
  it('has the stored name of its kind, and its label, as plain strings', () => {
    const plan: Planned = planned({ label: treeLabel, kind: processTreeKind, spec: treeSpec, live, onLoss: 'keep' })
    expect(plan).toEqual({ label: 'tree', kind: 'process-tree', spec: treeSpec, live, onLoss: 'keep' })
  })

  it('needs no live input when its kind takes none', () => {
    expect(planned({ label: logLabels[0], kind: logKind, spec: logSpec })).not.toHaveProperty('live')
  })

  it('does not compile with the spec, the live input or the label of another kind', () => {
    // @ts-expect-error: the spec is the spec of a log.
    planned({ label: treeLabel, kind: processTreeKind, spec: logSpec, live })
    // @ts-expect-error: a required part of the spec is missing.
    planned({ label: logLabels[0], kind: logKind, spec: { installation: 'i' } })
    // @ts-expect-error: the spec of the kind has no token.
    planned({ label: logLabels[0], kind: logKind, spec: { ...logSpec, token: 'secret' } })
    // @ts-expect-error: the live input has no argv.
    planned({ label: treeLabel, kind: processTreeKind, spec: treeSpec, live: { env: {}, cwd: '/' } })
    // @ts-expect-error: the kind needs live input.
    planned({ label: treeLabel, kind: processTreeKind, spec: treeSpec })
    // @ts-expect-error: the kind takes no live input.
    planned({ label: logLabels[0], kind: logKind, spec: logSpec, live: 'text' })
    // @ts-expect-error: a log gives no handle of a process tree.
    planned({ label: treeLabel, kind: logKind, spec: logSpec })
    // @ts-expect-error: a process tree gives no handle of a session.
    planned({ label: sessionLabel, kind: processTreeKind, spec: treeSpec, live })
    // @ts-expect-error: a name that carries no types is not checked, so it cannot be planned.
    planned({ label: treeLabel, kind: 'process-tree', spec: treeSpec, live })
    // @ts-expect-error: the engine takes only resources whose kind and label carry their types.
    const unchecked: Planned = { label: 'tree', kind: 'process-tree', spec: treeSpec }
    expect(unchecked.kind).toBe(processTreeKind)
  })
})

describe('a stored resource', () => {
  it('has the spec and the detail of its kind, and of no other', () => {
    expect(isOfKind(processTreeKind, stored)).toBe(false)
    expect(isOfKind(logKind, stored) && stored.spec.archive).toBe('/archive/stdout.log')
    // @ts-expect-error: the kind of the resource was not compared, so its spec is unknown.
    expect(stored.spec.archive).toBeDefined()
    // @ts-expect-error: a log has no program.
    expect(isOfKind(logKind, stored) && stored.spec.program).toBeUndefined()
    const read = (): unknown => isOfKind(processTreeKind, stored) && stored.detail?.pid
    expect(read()).toBe(false)
  })
})

describe('handles', () => {
  const handles = new Handles()
  handles.add(treeLabel, tree)
  handles.add(logLabels[0], log)

  it('have the type that their label promises', () => {
    expect(handles.get(treeLabel).pid).toBe(1)
    expect(handles.get(logLabels[0]).path).toBe('/logs/a')
    // @ts-expect-error: a log has no exit.
    expect(handles.get(logLabels[0]).exit).toBeUndefined()
    // @ts-expect-error: a log is no process tree.
    handles.add(label<TreeHandle>('other'), log)
    // @ts-expect-error: a plain string says nothing about the handle.
    expect(handles.get('tree')).toBe(tree)
  })

  it('find: returns undefined without a handle, and get throws', () => {
    expect(handles.find(sessionLabel)).toBeUndefined()
    expect(() => handles.get(sessionLabel)).toThrow('There is no handle of the resource "session".')
  })
})

describe('a creation', () => {
  const noteKind = kindName<{ spec: string; detail: { readonly inode: string } }>('note')

  it('does not compile with the detail, the live input or the handle of another kind', () => {
    const create = async (ctx: CreateCtx<typeof noteKind>): Promise<Created<typeof noteKind>> => {
      await ctx.record({ inode: '1' })
      // @ts-expect-error: the detail has no pid.
      await ctx.record({ pid: 1 })
      // @ts-expect-error: the kind takes no live input.
      expect(ctx.live?.argv).toBeUndefined()
      return { detail: { inode: '1' } }
    }
    // @ts-expect-error: a creation of a log returns its handle.
    const nothing: Created<typeof logKind> = {}
    // @ts-expect-error: the kind gives no handle.
    const given: Created<typeof noteKind> = { handle: log }
    expect([create, nothing, given]).toHaveLength(3)
  })
})
