// The child process of a synthetic agent. It reads its schedule from standard input, prints each message at its time as one line
// of JSON, and ends as the schedule says. When the schedule has no end, the process waits, like an agent that is still busy.
const { readFileSync } = require('node:fs')

const events = JSON.parse(readFileSync(0, 'utf8')).sort((one, other) => one.delay - other.delay)
const startedMs = performance.now()

process.on('SIGTERM', () => process.exit(143))
process.on('SIGINT', () => process.exit(130))

const endings = { complete: (event) => (event.data?.success === false ? 1 : 0), error: () => 1 }

/** Prints all messages that are due in one write: a timer takes at least a millisecond, in which thousands may become due. */
function playFrom(first) {
  const elapsedMs = performance.now() - startedMs
  let next = first
  let ending
  while (!ending && next < events.length && events[next].delay <= elapsedMs) {
    if (events[next].type in endings) ending = events[next]
    next += 1
  }
  const lines = events.slice(first, next).filter((event) => event.type !== 'complete')
  process.stdout.write(lines.map((event) => `${JSON.stringify(event)}\n`).join(''), () => {
    if (ending) process.exit(endings[ending.type](ending))
    else if (next < events.length) setTimeout(() => playFrom(next), Math.max(0, events[next].delay - (performance.now() - startedMs)))
    else setInterval(() => {}, 2 ** 30)
  })
}

playFrom(0)
