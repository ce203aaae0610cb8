import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { benchCrowd, benchListing, benchMessages, benchReset } from './control.ts'
import { benchDocker } from './docker.ts'
import { benchEcs } from './ecs.ts'
import { type Row, table } from './measure.ts'
import { benchReaper } from './reaper.ts'
import { benchSentinel } from './sentinel.ts'
import { benchCommandLine, benchLaunch } from './start.ts'
import { benchStop } from './stop.ts'
import { benchTmux } from './tmux.ts'

/** `npm run bench [name…]` measures the claims of docs/benchmarks.md. It prints JSON and a table, and exits with 1 when a claim was not met. */
const suites = {
  stop: benchStop,
  start: benchCommandLine,
  launch: benchLaunch,
  sentinel: benchSentinel,
  reaper: benchReaper,
  reset: benchReset,
  messages: benchMessages,
  listing: benchListing,
  crowd: benchCrowd,
  tmux: benchTmux,
  docker: benchDocker,
  ecs: benchEcs,
}

const wanted = process.argv.slice(2)
const rows: Row[] = []
for (const [name, suite] of Object.entries(suites)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue
  process.stderr.write(`bench: ${name}…\n`)
  rows.push(...(await suite()))
}
const results = join(import.meta.dirname, 'results')
mkdirSync(results, { recursive: true })
const json = JSON.stringify({ at: new Date().toISOString(), node: process.version, rows }, null, 2)
writeFileSync(join(results, 'latest.json'), `${json}\n`)
console.log(json)
console.log(table(rows))
process.exit(rows.every((row) => row.kept) ? 0 : 1)
