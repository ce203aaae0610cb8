import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** The minimal proven stop: write cgroup.kill, wait until the cgroup is empty, remove it. No ledger, no ladder, no report. */

export function cgroupMount(): string {
  const line = readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .find((candidate) => candidate.includes(' - cgroup2 '))
  const mount = line?.split(' ')[4]
  if (!mount) throw new Error('These benchmarks need cgroup v2.')
  return mount
}

export interface RawTree {
  readonly directory: string
  readonly child: ChildProcess
}

let count = 0

export function rawStart(argv: readonly string[]): RawTree {
  const directory = join(cgroupMount(), `bench-raw-${process.pid}-${++count}`)
  mkdirSync(directory)
  const child = spawn('/bin/sh', ['-c', 'echo $$ > "$0/cgroup.procs" && exec "$@"', directory, ...argv], { stdio: 'ignore' })
  return { directory, child }
}

export const populationOf = (directory: string): number => readFileSync(join(directory, 'cgroup.procs'), 'utf8').split('\n').length - 1

/** Waits until the tree has this many processes, because a benchmark must not time a tree that is still starting. */
export async function populated(directory: string, processes: number): Promise<void> {
  while (populationOf(directory) < processes) await new Promise<void>((resolve) => setImmediate(resolve))
}

export async function rawStop({ directory }: RawTree): Promise<void> {
  writeFileSync(join(directory, 'cgroup.kill'), '1')
  while (readFileSync(join(directory, 'cgroup.events'), 'utf8').includes('populated 1'))
    await new Promise<void>((resolve) => setImmediate(resolve))
  rmdirSync(directory)
}
