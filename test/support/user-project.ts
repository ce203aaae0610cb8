import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { nodeProgram, root, temporaryHome } from './home.ts'

/** A user's project: a folder with the packages linked, as `npm install ../ebb` links them. */
export interface UserProject {
  readonly folder: string
  write(name: string, text: string): void
  /** Runs a program with Node and waits for its end. */
  run(words: readonly string[], env?: NodeJS.ProcessEnv): Promise<Ran>
}

export interface Ran {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

const packages = ['@playwright/test', '@types/node', 'socket.io-client', 'vitest']

/** Paths of programs that `run` of a project can start. */
export const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs')
export const playwright = join(root, 'node_modules', '@playwright', 'test', 'cli.js')
export const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')

const deadlineMs = 50_000

export function userProject(manifest: object = { type: 'module' }): UserProject {
  const folder = temporaryHome()
  const home = temporaryHome()
  const link = (target: string, name: string): void => {
    const path = join(folder, 'node_modules', name)
    mkdirSync(dirname(path), { recursive: true })
    symlinkSync(target, path)
  }
  const write = (name: string, text: string): void => writeFileSync(join(folder, name), text)
  for (const name of packages) link(join(root, 'node_modules', name), name)
  link(root, 'ebb')
  link('../ebb/bin/ebb', '.bin/ebb')
  write('package.json', JSON.stringify({ name: 'a-project', private: true, ...manifest }))
  return {
    folder,
    write,
    run: (words, more = {}) => {
      // Playwright's default cache would stay in the system's temp folder.
      const PLAYWRIGHT_TRANSFORM_CACHE_DIR = join(folder, 'node_modules', '.cache')
      const env = { ...ownEnvironment(), EBB_HOME: home, PLAYWRIGHT_TRANSFORM_CACHE_DIR, ...more }
      return ended(spawn(nodeProgram, ['--disable-warning=ExperimentalWarning', ...words], { cwd: folder, env }))
    },
  }
}

/** The environment of the test process, without the variables of its test runner and without settings of Ebb. */
function ownEnvironment(): NodeJS.ProcessEnv {
  const isForeign = (name: string): boolean => /^(VITEST|TEST$|NODE_ENV$|CI$|FORCE_COLOR$|NO_COLOR$|EBB_(?!TEST_))/.test(name)
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !isForeign(name)))
}

function ended(child: ChildProcess): Promise<Ran> {
  const texts = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) child[name]?.setEncoding('utf8').on('data', (text: string) => (texts[name] += text))
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => child.kill('SIGKILL'), deadlineMs)
    child.once('error', reject)
    child.once('close', (code) => {
      clearTimeout(timer)
      resolve({ code, stdout: stripVTControlCharacters(texts.stdout), stderr: stripVTControlCharacters(texts.stderr) })
    })
  })
}
