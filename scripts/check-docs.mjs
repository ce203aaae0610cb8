// Documents that are true: the reference pages are what the code would make, and every link leads somewhere.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { stalePages } from './reference.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const problems = stalePages().map(([path]) => `${path} is not what the code says; run "npm run docs".`)

function* markdown(directory) {
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name)
    if (entry.isDirectory() && !['node_modules', '.git', 'dist'].includes(entry.name)) yield* markdown(path)
    else if (entry.name.endsWith('.md')) yield path
  }
}

for (const file of markdown(root)) {
  for (const [, target] of readFileSync(file, 'utf8').matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)) {
    if (/^[a-z]+:/.test(target)) continue
    if (!existsSync(join(dirname(file), target))) problems.push(`${relative(root, file)} links to ${target}, which does not exist.`)
  }
}

for (const problem of problems) console.error(problem)
console.log(problems.length === 0 ? 'Documents: all true.' : `Documents: ${problems.length} problems.`)
process.exit(problems.length === 0 ? 0 : 1)
