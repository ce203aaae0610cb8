import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { median, type Row } from './measure.ts'
import { cgroupMount } from './raw.ts'

const ebb = join(import.meta.dirname, '..', 'bin', 'ebb')
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

interface Sample {
  readonly cleanMs: number
  readonly rssKib: number
}

/** Measures the time from SIGKILL of the supervisor until no process and no cgroup of its installation is left. */
async function sample(home: string): Promise<Sample> {
  const script = 'i=0; while [ $i -lt 50 ]; do setsid sleep 1000 & i=$((i+1)); done; wait'
  const child = spawn(ebb, ['exec', '--', 'sh', '-c', script], { stdio: 'ignore', env: { ...process.env, EBB_HOME: home } })
  const installation = async (): Promise<string> => {
    const file = join(home, 'installation.json')
    while (!existsSync(file)) await turn()
    return (JSON.parse(readFileSync(file, 'utf8')) as { id: string }).id
  }
  const root = join(cgroupMount(), `ebb-${await installation()}`)
  while (countProcesses(root) < 51) await turn()
  const rssKib = sentinelRss(child.pid ?? 0)
  const startedMs = performance.now()
  child.kill('SIGKILL')
  while (existsSync(root)) await turn()
  return { cleanMs: performance.now() - startedMs, rssKib }
}

function countProcesses(directory: string): number {
  try {
    const here = readFileSync(join(directory, 'cgroup.procs'), 'utf8').split('\n').length - 1
    const below = readdirSync(directory, { withFileTypes: true }).filter((entry) => entry.isDirectory())
    return here + below.reduce((sum, entry) => sum + countProcesses(join(directory, entry.name)), 0)
  } catch {
    return 0
  }
}

function sentinelRss(supervisor: number): number {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      if (!readFileSync(`/proc/${pid}/cmdline`, 'utf8').startsWith('ebb-sentinel')) continue
      const status = readFileSync(`/proc/${pid}/status`, 'utf8')
      if (Number(/^PPid:\s+(\d+)$/m.exec(status)?.[1]) === supervisor) return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1])
    } catch {
      // The process has exited in the meantime.
    }
  }
  return Number.NaN
}

export async function benchSentinel(): Promise<readonly Row[]> {
  const home = mkdtempSync(join(tmpdir(), 'ebb-bench-'))
  try {
    const samples: Sample[] = []
    for (let round = 0; round < 7; round++) samples.push(await sample(home))
    const cleanMs = median(samples.map((one) => one.cleanMs))
    const rssMib = Math.max(...samples.map((one) => one.rssKib)) / 1_024
    return [
      { name: 'SIGKILL of the supervisor to a clean system', ebb: cleanMs, unit: 'ms', claim: 'at most 1 s', kept: cleanMs <= 1_000 },
      { name: 'memory of the sentinel', ebb: rssMib, unit: 'MiB', claim: 'under 3 MB', kept: rssMib < 2.86 },
    ]
  } finally {
    rmSync(home, { recursive: true, force: true })
  }
}
