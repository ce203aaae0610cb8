// docs/reference is made from the code: the tables of commands, settings, routes, errors and metrics.
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { switchFlag } from '../src/cli/help.ts'
import { allCommands } from '../src/cli/registry.ts'
import { flagOf, options, variableOf } from '../src/config/options.ts'
import { errorTable } from '../src/core/model/errors.ts'
import { agentRoutes } from '../src/server/http/routes/agents.ts'
import { cleanupRoutes } from '../src/server/http/routes/cleanup.ts'
import { requestRoutes } from '../src/server/http/routes/requests.ts'
import { serverRoutes } from '../src/server/http/routes/server.ts'
import { testRoutes } from '../src/server/http/routes/test.ts'
import { metricTable } from '../src/server/metrics.ts'

const commands = await allCommands()
const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const note = '<!-- Made by scripts/reference.mjs from the code; run "npm run docs" after a change. -->'
const cell = (text) => String(text).replaceAll('|', '\\|')

function cli() {
  const sections = commands.map(
    (command) =>
      `## ${command.name}\n\n${command.summary}\n\n\`\`\`console\n$ ${command.usage}\n\`\`\`\n\nOptions: ${[...command.options.map(flagOf), '--config', ...command.switches.map((name) => switchFlag(command, name))].map((flag) => `\`${flag}\``).join(', ')}.\n\n\`\`\`console\n${command.examples.map((example) => `$ ${example}`).join('\n')}\n\`\`\`\n`,
  )
  return `${note}\n\n# Commands\n\nEvery setting that an option means: [configuration](configuration.md). Durations read \`250ms\`, \`5s\`, \`2m\`; sizes \`512m\`, \`2g\`. What is unknown or bad is refused by name.\n\n${sections.join('\n')}`
}

function configuration() {
  const rows = Object.entries(options).map(
    ([key, { placeholder, fallback, help, shape }]) =>
      `| \`${shape === 'switch' ? flagOf(key) : `${flagOf(key)} ${cell(placeholder)}`}\` | \`${variableOf(key)}\` | \`${key}\` | ${shown(fallback, placeholder)} | ${cell(help)} |`,
  )
  return `${note}\n\n# Configuration\n\nA flag beats a variable beats \`--config FILE\` or \`$EBB_HOME/ebb.config.json\`. The keys of a file may be nested as they are named: \`{"docker": {"image": "node:24-slim"}}\` is \`dockerImage\`. Lists are JSON lists, or text with commas, where a comma within an entry is \`\\,\`. What is unknown or bad is refused by name.\n\n| flag | variable | key | default | meaning |\n|---|---|---|---|---|\n${rows.join('\n')}\n`
}

/** As one would write it: a default's own placeholder is its text. */
function shown(fallback, placeholder) {
  if (fallback === undefined || fallback instanceof Map || (Array.isArray(fallback) && fallback.length === 0)) return ''
  return `\`${typeof fallback === 'number' ? placeholder : fallback}\``
}

function metrics() {
  const rows = Object.values(metricTable).map(
    ({ name, help, labelNames }) => `| \`${name}\` | ${labelNames.map((label) => `\`${label}\``).join(', ')} | ${help} |`,
  )
  return `${note}\n\n# Metrics\n\n\`GET /metrics\` of the server, in the text format of Prometheus, with the metrics of its process (\`process_…\`, \`nodejs_…\`).\n\n\`\`\`console\n$ curl -s localhost:4400/metrics\n\`\`\`\n\n| metric | labels | what it counts |\n|---|---|---|\n${rows.join('\n')}\n\nWorth an alert: \`ebb_cleanup_consecutive_failures > 2\`, \`ebb_resources{state="stuck"} > 0\` for ten minutes, and any increase of \`ebb_orphans_found_total\`.\n`
}

function errors() {
  const rows = Object.entries(errorTable).map(([code, { exit, status, when }]) => `| \`${code}\` | ${exit} | ${status} | ${when} |`)
  return `${note}\n\n# Errors\n\nEvery error carries a code and a sentence that says what to do. The exit code is that of \`ebb exec\`; other commands say 1 where it is above 100.\n\n| code | exit | HTTP | when |\n|---|---|---|---|\n${rows.join('\n')}\n`
}

/** The routes as data; nothing of the control plane behind them is ever called here. */
const nothing = new Proxy(() => {}, { get: () => nothing })
const routes = [
  ...serverRoutes(nothing, nothing, nothing),
  ...agentRoutes(nothing, ''),
  ...requestRoutes(nothing),
  ...cleanupRoutes(nothing),
  ...testRoutes(nothing),
]

function http() {
  const fields = (schema) =>
    schema
      ? Object.keys(schema.shape ?? {})
          .map((name) => `\`${name}\``)
          .join(', ')
      : ''
  const rows = routes.map(
    ({ method, path, summary, query, body, answers }) =>
      `| \`${method} /api${path}\` | ${cell(summary)} | ${[fields(body), fields(query) && `?${fields(query)}`].filter(Boolean).join(' ')} | ${Object.keys(answers).join(', ')} |`,
  )
  return `${note}\n\n# HTTP\n\nThe schemas of every body and answer are at \`/api/openapi.json\`. Routes under \`/api/test\` exist only with \`--test-endpoints\`. \`GET /metrics\` is for Prometheus.\n\n| call | what it does | takes | answers |\n|---|---|---|---|\n${rows.join('\n')}\n`
}

export const pages = {
  'docs/reference/cli.md': cli(),
  'docs/reference/configuration.md': configuration(),
  'docs/reference/errors.md': errors(),
  'docs/reference/http.md': http(),
  'docs/reference/metrics.md': metrics(),
}

export function stalePages() {
  return Object.entries(pages).filter(([path, text]) => {
    try {
      return readFileSync(join(root, path), 'utf8') !== text
    } catch {
      return true
    }
  })
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  for (const [path, text] of Object.entries(pages)) writeFileSync(join(root, path), text)
