/**
 * Finds the program that `npx`, `uvx` or another launcher runs. The lists say which options take a value, so that the value of an
 * option (a folder) or a package script (`npm run`) is not taken for the program.
 */

const ofNpm =
  /^(-p|--package|-w|--workspace|--prefix|--cache|--userconfig|--globalconfig|--registry|--loglevel|--script-shell|-c|--call|--node-options)$/
const ofPnpm = /^(-p|--package|-C|--dir|--filter|-F|--cwd|--registry|--reporter|--loglevel|-c|--call)$/
const ofUv =
  /^(--directory|--project|-p|--python|--from|--spec|-w|--with|--with-editable|--with-requirements|--index|-i|--index-url|--default-index|--extra-index-url|-f|--find-links|--cache-dir|--config-file|--env-file|--extra|--group|--no-group|--only-group|--refresh-package|-P|--upgrade-package|--reinstall-package|--color|--link-mode|--resolution|--prerelease|-c|--constraints|--overrides|--keyring-provider|--allow-insecure-host|--python-platform|-C|--config-setting|--exclude-newer|--index-strategy|--index-url|--pip-args|--suffix)$/

interface Launcher {
  /** Matches options whose value is the next word. */
  readonly values: RegExp
  /** Subcommands that precede the program, in order. */
  readonly verbs: readonly RegExp[]
}

const launchers: ReadonlyMap<string, Launcher> = new Map([
  ['npx', { values: ofNpm, verbs: [] }],
  ['npm', { values: ofNpm, verbs: [/^(exec|x)$/] }],
  ['pnpx', { values: ofPnpm, verbs: [] }],
  ['pnpm', { values: ofPnpm, verbs: [/^(dlx|exec)$/] }],
  ['yarn', { values: ofPnpm, verbs: [/^(dlx|exec)$/] }],
  ['bunx', { values: ofPnpm, verbs: [] }],
  ['bun', { values: ofPnpm, verbs: [/^x$/] }],
  ['uvx', { values: ofUv, verbs: [] }],
  ['uv', { values: ofUv, verbs: [/^(run|tool)$/] }],
  ['uv tool', { values: ofUv, verbs: [/^(run|uvx)$/] }],
  ['pipx', { values: ofUv, verbs: [/^run$/] }],
])

export const isLauncher = (name: string): boolean => name !== 'bun' && launchers.has(name)

/** The program and its arguments. Undefined when the launcher runs nothing, for example when it installs a package. */
export function launchedBy(launcher: string, words: readonly string[]): readonly string[] | undefined {
  const known = launchers.get(launcher)
  if (!known) return undefined
  let rest = afterOptions(words, known.values)
  for (const verb of known.verbs) {
    const [word = '', ...others] = rest
    if (!verb.test(word)) return undefined
    if (word === 'tool') return launchedBy('uv tool', others)
    rest = afterOptions(others, known.values)
  }
  return rest.length > 0 ? rest : undefined
}

function afterOptions(words: readonly string[], values: RegExp): readonly string[] {
  for (let index = 0; index < words.length; index++) {
    const word = words[index] ?? ''
    if (word === '--') return words.slice(index + 1)
    if (values === ofUv && /^(-m|--module)$/.test(word)) return ['python3', '-m', ...words.slice(index + 1)]
    if (!word.startsWith('-')) return words.slice(index)
    if (values.test(word)) index += 1
  }
  return []
}

/** The name of a package without its version: `@scope/name@1.2`, `name[extra]==1.2`, `npm:name`. */
export function bareName(word: string): string {
  return word
    .replace(/^(npm|jsr):\/?/, '')
    .replace(/(?:\[|[=<>~!]=|[<>]).*$/, '')
    .replace(/(?<=.)@[^/@]*$/, '')
}
