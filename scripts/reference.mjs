// docs/reference is made from the code: the commands' own table, the options' and the errors'.
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { flagOf, options, variableOf } from '../src/config/options.ts'
import { errorTable } from '../src/domain/errors.ts'
import { agentCommands } from '../src/interfaces/cli/agent-commands.ts'
import { commands } from '../src/interfaces/cli/cli.ts'
import { switchFlag } from '../src/interfaces/cli/help.ts'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const note = '<!-- Made by scripts/reference.mjs from the code; run "npm run docs" after a change. -->'
const cell = (text) => String(text).replaceAll('|', '\\|')

function cli() {
  const sections = [...commands, ...agentCommands].map(
    (command) =>
      `## ${command.name}\n\n${command.summary}\n\n\`\`\`console\n$ ${command.usage}\n\`\`\`\n\nOptions: ${[...command.options.map(flagOf), '--config', ...command.switches.map((name) => switchFlag(command, name))].map((flag) => `\`${flag}\``).join(', ')}.\n\n\`\`\`console\n${command.examples.map((example) => `$ ${example}`).join('\n')}\n\`\`\`\n`,
  )
  const rows = Object.entries(options).map(
    ([key, option]) => `| \`${flagOf(key)} ${cell(option.placeholder)}\` | \`${variableOf(key)}\` | \`${key}\` | ${option.help} |`,
  )
  return `${note}\n\n# Commands\n\nA flag beats a variable beats \`--config FILE\` or \`$EBB_HOME/ebb.config.json\`. Durations read \`250ms\`, \`5s\`, \`2m\`. What is unknown or bad is refused by name.\n\n${sections.join('\n')}\n## Settings\n\n| flag | variable | key | meaning |\n|---|---|---|---|\n${rows.join('\n')}\n`
}

function errors() {
  const rows = Object.entries(errorTable).map(([code, { exit, status, when }]) => `| \`${code}\` | ${exit} | ${status} | ${when} |`)
  return `${note}\n\n# Errors\n\nEvery error carries a code and a sentence that says what to do. The exit code is that of \`ebb exec\`; other commands say 1 where it is above 100.\n\n| code | exit | HTTP | when |\n|---|---|---|---|\n${rows.join('\n')}\n`
}

export const pages = { 'docs/reference/cli.md': cli(), 'docs/reference/errors.md': errors() }

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
