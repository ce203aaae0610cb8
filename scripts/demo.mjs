// `npm start`: a command that does everything wrong, run under `ebb exec`, and the report of what was done about it.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ebb = join(dirname(fileURLToPath(import.meta.url)), '..', 'bin', 'ebb')
const home = mkdtempSync(join(tmpdir(), 'ebb-demo-'))
const report = join(home, 'report.json')
const mark = `ebb-demo-${process.pid}`

// A daemon in a session of its own, one without its environment, one that is deaf to SIGTERM; then a clean exit.
const hostile = `
setsid sh -c 'sleep 1000; :' ${mark} &
env -i setsid sh -c 'sleep 1000; :' ${mark} &
setsid sh -c 'trap "" TERM; : > "$1"; while :; do sleep 1000; done' ${mark} ${home}/deaf &
until [ -e ${home}/deaf ]; do :; done
echo "  the command says: I have finished, and there is nothing left of me."
`

function left() {
  return readdirSync('/proc').filter((name) => {
    try {
      return /^\d+$/.test(name) && readFileSync(`/proc/${name}/cmdline`, 'utf8').includes(mark) && Number(name) !== process.pid
    } catch {
      return false
    }
  })
}

console.log('ebb exec --grace 500ms -- sh -c "three daemons, then exit 0"\n')
const run = spawnSync(ebb, ['exec', '--grace', '500ms', '--report', report, '--', 'sh', '-c', hostile], {
  stdio: 'inherit',
  env: { ...process.env, EBB_HOME: home },
})
const { success, duration, resources } = JSON.parse(readFileSync(report, 'utf8'))
console.log(`\n  exit code passed through: ${run.status}`)
for (const { kind, outcome, steps, proof } of resources) {
  const ladder = steps.map(({ step, took }) => `${step} ${took} ms`).join(' → ')
  console.log(`  ${kind}: ${outcome} after ${ladder}; proof: ${proof.method} (${proof.strength})`)
}
console.log(`  success: ${success}, closed in ${duration} ms`)
console.log(`  processes left, counted by looking: ${left().length}\n`)
console.log('Now with your own command:  bin/ebb exec -- COMMAND…      All commands:  bin/ebb help')
rmSync(home, { recursive: true, force: true })
process.exit(success && run.status === 0 && left().length === 0 ? 0 : 1)
