// Checks the documents: the reference pages match the code, every link leads somewhere, and every cited guarantee is described.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { stalePages } from './reference.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const problems = stalePages().map(([path]) => `${path} does not match the code; run "npm run docs".`)

function* files(directory, ending) {
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name)
    if (entry.isDirectory() && !['node_modules', '.git', 'dist'].includes(entry.name)) yield* files(path, ending)
    else if (ending.test(entry.name)) yield path
  }
}

for (const file of files(root, /\.md$/)) {
  for (const [, target] of readFileSync(file, 'utf8').matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)) {
    if (/^[a-z]+:/.test(target)) continue
    if (!existsSync(join(dirname(file), target))) problems.push(`${relative(root, file)} links to ${target}, which does not exist.`)
  }
}

/** The numbers that docs/guarantees.md describes. Its table agrees with its sections, and a guarantee that is held names a test. */
function describedGuarantees() {
  const page = 'docs/guarantees.md'
  const [head, ...sections] = readFileSync(join(root, page), 'utf8').split(/^## /m)
  const numbers = new Set()
  for (const section of sections.filter((one) => /^G\d+ /.test(one))) {
    const heading = section.split('\n', 1)[0]
    const [, number, title] = /^(G\d+) (.+)$/.exec(heading)
    const isHeld = !section.includes('**Not yet held.**')
    const anchor = heading
      .toLowerCase()
      .replaceAll(/[^\w -]/g, '')
      .replaceAll(' ', '-')
    const row = `| [${number}](#${anchor}) | ${title} | ${isHeld ? 'held' : '**not yet held**'} |`
    if (!head.includes(row)) problems.push(`${page}: its table lacks the row ${row}`)
    if (isHeld && !/\]\(\.\.\/test\/\S+(\.test|-cases)\.ts\)/.test(section)) problems.push(`${page}: ${number} is held and names no test.`)
    numbers.add(number)
  }
  return numbers
}

const described = describedGuarantees()
const citing = /\.(ts|tsx|mjs|cjs|js|c|h|sh|css|html|md)$/
const folders = ['src', 'test', 'bench', 'scripts', 'bin', 'web/src', 'docs'].flatMap((folder) => [...files(join(root, folder), citing)])
const pages = readdirSync(root).filter((name) => name.endsWith('.md'))
for (const file of [...folders, ...pages.map((name) => join(root, name))]) {
  const cited = new Set(Array.from(readFileSync(file, 'utf8').matchAll(/\bG\d+\b/g), ([number]) => number))
  for (const number of cited.difference(described))
    problems.push(`${relative(root, file)} cites ${number}, which docs/guarantees.md does not describe.`)
}

for (const problem of problems) console.error(problem)
console.log(problems.length === 0 ? 'Documents: no problems.' : `Documents: ${problems.length} problems.`)
process.exit(problems.length === 0 ? 0 : 1)
