// A synthetic agent's child process: reads its schedule from standard input, says each message at its time as one line
// of JSON, and ends as the schedule says. After the last event without an end it waits, as an agent that is still busy.
const { readFileSync } = require('node:fs')

const events = JSON.parse(readFileSync(0, 'utf8')).sort((one, other) => one.delay - other.delay)
const startedMs = performance.now()

process.on('SIGTERM', () => process.exit(143))
process.on('SIGINT', () => process.exit(130))

function playFrom(index) {
  const event = events[index]
  if (!event) return void setInterval(() => {}, 2 ** 30)
  setTimeout(
    () => {
      if (event.type === 'complete') process.exit(event.data?.success === false ? 1 : 0)
      process.stdout.write(`${JSON.stringify(event)}\n`, () => (event.type === 'error' ? process.exit(1) : playFrom(index + 1)))
    },
    Math.max(0, event.delay - (performance.now() - startedMs)),
  )
}

playFrom(0)
