import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './home.ts'

const sources = join(root, 'test', 'fixtures')
const cache = join(root, 'node_modules', '.cache', 'ebb-fixtures')

/** The path of a fixture by name. A fixture in C is compiled once, and again when its source changes. */
export function fixture(name: string): string {
  const script = join(sources, `${name}.sh`)
  return existsSync(script) ? script : compiled(name)
}

function compiled(name: string): string {
  const file = join(sources, `${name}.c`)
  const hash = createHash('sha256')
    .update(readFileSync(file))
    .update(readFileSync(join(sources, 'fixture.h')))
    .digest('hex')
    .slice(0, 12)
  const program = join(cache, hash, name)
  if (existsSync(program)) return program
  mkdirSync(join(cache, hash), { recursive: true })
  const draft = `${program}.${process.pid}`
  execFileSync('gcc', ['-O1', '-Wall', '-Werror', '-o', draft, file], { stdio: 'pipe' })
  renameSync(draft, program)
  return program
}
