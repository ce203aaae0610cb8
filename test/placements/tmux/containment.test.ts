import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
import { environmentTag, environmentTagName } from '../../../src/core/model/identity.ts'
import { logLabels } from '../../../src/core/ports/agent-log.ts'
import type { Effects } from '../../../src/core/ports/effects.ts'
import { Handles } from '../../../src/core/ports/handles.ts'
import type { CreateCtx } from '../../../src/core/ports/kind.ts'
import { type processTreeKind, type SessionHandle, sessionLabel } from '../../../src/core/ports/process.ts'
import type { Containment, Tree } from '../../../src/host/containment/containment.ts'
import { ScanContainment } from '../../../src/host/containment/scan.ts'
import { realEffects } from '../../../src/host/effects.ts'
import { openHost } from '../../../src/host/host.ts'
import { procTable } from '../../../src/host/processes/proc.ts'
import { ProcessTreeKind } from '../../../src/kinds/process-tree/kind.ts'
import { temporaryHome } from '../../support/home.ts'
import { seen } from '../../support/world.ts'

const installation = `terminal${process.pid}`

function scan(effects: Effects = realEffects): { readonly net: ScanContainment; readonly incarnation: string } {
  const host = openHost(installation, procTable)
  const net = new ScanContainment({ effects, host, processes: procTable, inheritedTag: undefined, directory: temporaryHome() })
  return { net, incarnation: host.incarnationId }
}

describe('tmux: a command that was started in a terminal', () => {
  it.each([
    ['fails its launch when it is outside of its containment', false],
    ['is held when it is inside its containment', true],
  ])('%s', async (_, isInside) => {
    const child = spawn('sleep', ['1000'])
    try {
      const started = { pid: child.pid ?? 0, exit: new Promise<never>(() => {}), stdin: undefined }
      const containment = { name: 'cgroup', start: async () => started, holds: () => isInside } as unknown as Containment
      const { net } = scan()
      const host = openHost(installation, procTable)
      const kind = new ProcessTreeKind({
        effects: realEffects,
        host,
        processes: procTable,
        containments: new Map([['cgroup', containment]]),
        fallbackScan: net,
      })
      const tree = { mark: { installation, incarnation: 'none', resourceId: 'a.1' }, spec: { containment: 'cgroup' } } as unknown as Tree
      const live = {
        argv: ['sleep'],
        env: {},
        cwd: '/',
        stdin: 'ignore',
        streams: [],
        terminal: { label: sessionLabel, stdin: '/dev/null', stdout: logLabels[0], stderr: logLabels[1] },
      }
      const handles = new Handles()
      handles.add(sessionLabel, { announced: (argv) => argv } as SessionHandle)
      for (const label of logLabels) handles.add(label, { path: label, archive: label, done: () => {} })
      const created = kind.create(tree, tree.spec, { live, handles } as unknown as CreateCtx<typeof processTreeKind>)
      if (isInside) expect(await created).toMatchObject({ detail: { pid: started.pid } })
      else await expect(created).rejects.toMatchObject({ code: 'launch_failed', message: expect.stringContaining('moved it out') })
    } finally {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
  })
})

describe('scan: an exit that cannot wait', () => {
  it("kills what is Ebb's, and leaves scopes that are kept", async () => {
    const { net, incarnation } = scan()
    const start = (scope: string): ReturnType<typeof spawn> =>
      spawn('sleep', ['1000'], {
        env: { ...process.env, [environmentTagName]: environmentTag({ installation, incarnation, resourceId: `${scope}.1` }) },
      })
    const [kept, other] = [start('kept'), start('other')]
    try {
      await Promise.all([once(kept, 'spawn'), once(other, 'spawn')])
      const ended = once(other, 'exit')
      net.killAllNow(new Set(['kept']))
      expect(await ended).toEqual([null, 'SIGKILL'])
      expect(seen(kept.pid ?? 0)).toBeDefined()
    } finally {
      kept.kill('SIGKILL')
      await once(kept, 'exit')
    }
  })
})
