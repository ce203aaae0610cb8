// A synthetic agent's child process: reads its schedule from standard input, says each message at its time as one line
// of JSON, and ends as the schedule says. After the last event without an end it waits, as an agent that is still busy.
const { readFileSync } = require('node:fs')

const events = JSON.parse(readFileSync(0, 'utf8')).sort((one, other) => one.delay - other.delay)
const startedMs = performance.now()

process.on('SIGTERM', () => process.exit(143))
process.on('SIGINT', () => process.exit(130))

const endings = { complete: (event) => (event.data?.success === false ? 1 : 0), error: () => 1 }

/** Everything that is due in one write: a timer takes a millisecond at least, and thousands may be due in one. */
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
