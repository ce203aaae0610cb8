import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { root } from '../support/home.ts'

/**
 * Every change to the system goes through `Effects` (src/core/ports/effects.ts), so that the crash matrix can end the process around it (G9).
 * This test finds calls of Node that change files, start processes or send signals. Each file that has one is listed here with the reason.
 */

/** The files that may call Node directly. */
const allowed: Readonly<Record<string, string>> = {
  'src/host/effects.ts': 'implements Effects',
  'src/host/slow-effects.ts': 'implements Effects',
  'src/host/remove-folder.ts': 'implements Effects',
  'src/host/containment/subreaper-process.ts': 'runs in the subreaper process, which is killed by its own tests',
  'src/host/processes/descendants.ts': 'runs in the subreaper process, which is killed by its own tests',
  'src/store/sqlite/open.ts': 'the store: its ports are wrapped instead, and SQLite writes the file',
  'src/store/sqlite/wal-sync.ts': 'the store: its ports are wrapped instead, and SQLite writes the file',
  'src/cli/commands/exec.ts': 'writes the report that the user asked for, after everything is closed',
  'src/cli/top/full-screen.ts': 'writes to its own terminal, and stops itself on Ctrl-Z',
  'src/library/ebb.ts': 'sends a signal to its own process again',
  'bin/start.cjs': 'runs before Ebb: begins the wait for a cgroup early, and keeps compiled code after everything is closed',
  'src/host/host.ts': 'only reads: runs sysctl(8) on macOS',
  'src/host/processes/ps.ts': 'only reads: runs ps(1) on macOS',
  'src/doctor/search/program.ts': 'only reads: asks git and tmux, with a time limit',
  'src/placements/tmux/tmux.ts': 'only reads: asks tmux for its sessions, with a time limit',
}

/** Clients of the server, which have no engine and no crash matrix. */
const isClient = (file: string): boolean => /^src\/(testing|scripted-model)\//.test(file)

const changing =
  'appendFile|chmod|chown|copyFile|cp|createWriteStream|fchmod|fchown|fdatasync|fsync|ftruncate|futimes|lchown|link|lutimes|mkdir|mkdtemp|rename|rm|rmdir|symlink|truncate|unlink|utimes|write|writeFile|writev'
const imported = /import (?:type )?\{([^}]*)\} from 'node:fs(?:\/promises)?'/g
const ofModule =
  /const (\w+) = require\('node:fs'\)|import (?:\* as (\w+)|(\w+)) from 'node:fs(?:\/promises)?'|\{[^}]*\bpromises as (\w+)\b[^}]*\} from 'node:fs'/g

/** The ways in which the text of a module bypasses `Effects`. */
function bypassesIn(text: string): readonly string[] {
  const names = [...text.matchAll(imported)].flatMap(([whole, list = '']) => (whole.startsWith('import type') ? [] : list.split(',')))
  const changes = names.map((name) => name.trim().split(' ')[0] ?? '').filter((name) => new RegExp(`^(?:${changing})(?:Sync)?$`).test(name))
  const modules = [...text.matchAll(ofModule)].flatMap((match) => match.slice(1).filter((name) => name !== undefined))
  const calls = modules.flatMap((name) =>
    [...text.matchAll(new RegExp(`\\b${name}\\.(?:${changing})(?:Sync)?\\(`, 'g'))].map(([call]) => call),
  )
  const opens = [...text.matchAll(/(?<!#|descriptors\.)\bopen(?:Sync)?\([^\n]*(?:'(?:r\+|w|a)|O_(?:WRONLY|RDWR|CREAT|APPEND|TRUNC))/g)].map(
    () => 'open for writing',
  )
  const starts = /(?:from |require\()'node:child_process'/.test(text) ? ['node:child_process'] : []
  const signals = [...text.matchAll(/\bprocess\.kill\((?![^)]*, 0\))|\.signalPidfd\(/g)].map(([call]) => call)
  return [...changes, ...calls, ...opens, ...starts, ...signals]
}

it.each([
  [`import { existsSync, unlinkSync } from 'node:fs'`, ['unlinkSync']],
  [`import { readFile, rm as remove } from 'node:fs/promises'`, ['rm']],
  [`import * as fs from 'node:fs'\nfs.readFileSync(a)\nfs.mkdirSync(a)`, ['fs.mkdirSync(']],
  [`import { promises as files } from 'node:fs'\nawait files.rename(a, b)`, ['files.rename(']],
  [`import { openSync } from 'node:fs'\nopenSync(path, 'r+')`, ['open for writing']],
  [`openSync(path, constants.O_WRONLY | constants.O_CREAT)`, ['open for writing']],
  [`const fs = require('node:fs')\nfs.renameSync(a, b)`, ['fs.renameSync(']],
  [`import { spawn } from 'node:child_process'`, ['node:child_process']],
  [`const { spawn } = require('node:child_process')`, ['node:child_process']],
  [`process.kill(pid, signal)`, ['process.kill(']],
  [`kernel.signalPidfd(pin, signal)`, ['.signalPidfd(']],
  [`import type { Stats } from 'node:fs'\nprocess.kill(pid, 0)\neffects.unlink(path)\nopenSync(path, 'r')`, []],
])('effects: %s', (text, found) => {
  expect(bypassesIn(text)).toEqual(found)
})

it('effects: every bypass is in a listed file, and every listed file has one', () => {
  const files = ['src', 'bin'].flatMap((folder) =>
    (readdirSync(join(root, folder), { recursive: true }) as string[]).map((name) => join(folder, name)),
  )
  const found = files
    .filter((file) => /\.(ts|cjs)$/.test(file))
    .filter((file) => !isClient(file))
    .map((file) => [file, bypassesIn(readFileSync(join(root, file), 'utf8'))] as const)
    .filter(([, bypasses]) => bypasses.length > 0)
  expect(found.filter(([file]) => allowed[file] === undefined)).toEqual([])
  expect(Object.keys(allowed).filter((file) => !found.some(([other]) => other === file))).toEqual([])
})
