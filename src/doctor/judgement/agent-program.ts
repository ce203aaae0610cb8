import { bareName, isLauncher, launchedBy } from './launcher.ts'

/**
 * Agent programs and MCP servers, known by what runs and never by a word that merely stands somewhere in the arguments: the
 * executable, the script that an interpreter was given, or what a launcher was told to run.
 */

export type AgentProgram = 'claude' | 'codex' | 'gemini' | 'opencode'

export interface Recognised {
  readonly kind: 'agent' | 'mcp-server'
  /** The program, or the server's package. */
  readonly name: string
  /** Known by its package or its binary; else only by the name of a script, or by what it calls itself. */
  readonly isCertain: boolean
  /** Only the folder that its script is in says so: its streams have to say it, too. */
  readonly isByFolder?: boolean
}

const programs: readonly AgentProgram[] = ['claude', 'codex', 'gemini', 'opencode']

/** Folders of npm packages, by which a script or a binary is known whatever it is called. */
const packages: readonly (readonly [RegExp, AgentProgram])[] = [
  [/(^|\/)@anthropic-ai\/claude-code(-[a-z0-9-]+)?\//, 'claude'],
  [/(^|\/)@openai\/codex(-[a-z0-9-]+)?\//, 'codex'],
  [/(^|\/)@google\/gemini-cli(-[a-z0-9-]+)?\//, 'gemini'],
  [/(^|\/)node_modules\/opencode(-ai|-[a-z0-9]+-[a-z0-9-]+)\//, 'opencode'],
  // Its own installer calls the binary by its version.
  [/\/claude\/versions\/[^/]+$/, 'claude'],
]

/** Packages as `npx` and its like are told them. */
const packageNames: ReadonlyMap<string, AgentProgram> = new Map([
  ['@anthropic-ai/claude-code', 'claude'],
  ['@openai/codex', 'codex'],
  ['@google/gemini-cli', 'gemini'],
  ['opencode-ai', 'opencode'],
])

const runtimes = /^(node|nodejs|bun|deno|java|MainThread)$|^python[\d.]*$/
const shells = /^(sh|bash|dash|zsh|ksh|fish|ash|busybox)$/
/** Scripts that run another script in a process of their own. */
const runners = /^(tsx|ts-node)$/

export function isShell(program: string): boolean {
  return shells.test(program.replace(/^-/, ''))
}

export const baseName = (path: string): string => path.slice(path.lastIndexOf('/') + 1)

/** Without what a package manager, a wrapper (`.claude-wrapped`) or the kernel adds. */
const plainName = (path: string): string =>
  baseName(path)
    .replace(/ \(deleted\)$/, '')
    .replace(/\.(exe|[mc]?js|[mc]?ts|py|jar)$/, '')
    .replace(/^\.(.+)-wrapped_*$/, '$1')

const mostWords = 64
const mostLetters = 4_096

/** `exe` is what the kernel says runs, where we may know; `argv` is what the process says. */
export function recognise(words: readonly string[], exe: string | undefined): Recognised | undefined {
  // What is longer is no path (PATH_MAX), and what comes later says nothing about what runs.
  const argv = words.slice(0, mostWords).map((word) => word.slice(0, mostLetters))
  const [first = ''] = argv
  const runs = exe === undefined ? first : exe.replace(/ \(deleted\)$/, '')
  // Of Electron and Chromium: the desktop applications share their names with the programs.
  if (argv.some((word) => word.startsWith('--type='))) return undefined
  const name = plainName(runs)
  const called = programOf(plainName(first))
  const binary = packageOf(runs) ?? (name === called ? called : undefined)
  if (binary !== undefined) return { kind: 'agent', name: binary, isCertain: true }
  const byWords = ofWords(name, argv)
  // What a process calls itself is its own affair.
  return byWords ?? (called === undefined ? undefined : { kind: 'agent', name: called, isCertain: false })
}

function ofWords(name: string, argv: readonly string[]): Recognised | undefined {
  if (runtimes.test(name)) return ofRuntime(name, argv)
  if (shells.test(name)) return ofScript(given(name, argv)?.script, false)
  if (isLauncher(name)) return ofLaunched(launchedBy(name, argv.slice(1)))
  return mcpOf(name)
}

function programOf(name: string): AgentProgram | undefined {
  return programs.find((program) => program === name)
}

function packageOf(path: string): AgentProgram | undefined {
  return packages.find(([pattern]) => pattern.test(path))?.[1]
}

/** Node lets a program call itself something else, which then is all of its command line. */
function ofRuntime(name: string, argv: readonly string[]): Recognised | undefined {
  const [first = ''] = argv
  const renamed = argv.length === 1 ? programOf(baseName(first).split(' ')[0] ?? '') : undefined
  if (renamed !== undefined) return { kind: 'agent', name: renamed, isCertain: true }
  const npm = /^npm (?:exec|x) (.*)$/.exec(first)?.[1]
  if (npm !== undefined) return ofLaunched(launchedBy('npx', npm.split(' ')))
  if (name === 'java') return mcpOf(plainName(argv[argv.indexOf('-jar') + 1] ?? ''))
  if (name === 'bun' && argv[1] === 'x') return ofLaunched(launchedBy('bun', argv.slice(1)))
  const { script, module, rest = [] } = given(name, argv) ?? {}
  if (module !== undefined) return mcpOf(module)
  if (script === undefined) return undefined
  const launcher = /(?:^|\/)(npx|npm|pnpm|yarn|bunx)(?:-cli)?(?:\.c?js)?$/.exec(script)?.[1]
  if (launcher !== undefined) return ofLaunched(launchedBy(launcher, rest))
  if (/^(npm|jsr):/.test(script)) return ofLaunched([script])
  if (isRunner(script)) return ofScript(given('node', [script, ...rest])?.script, true)
  // `bun run NAME` is a script of a package, unless it is a file.
  return name === 'bun' && argv[1] === 'run' && !/[./]/.test(script) ? undefined : ofScript(script, true)
}

/** `tsx`, or its own script in its package. */
const isRunner = (script: string): boolean => runners.test(baseName(script)) || /\/node_modules\/(tsx|ts-node)\/dist\//.test(script)

interface Given {
  readonly script?: string
  readonly module?: string
  readonly rest?: readonly string[]
}

/** The first word that is no option, or the module; none where the program itself was given as an argument. */
function given(runtime: string, argv: readonly string[]): Given | undefined {
  const isDeno = runtime === 'deno'
  for (let index = 1; index < argv.length; index++) {
    const word = argv[index] ?? ''
    if (word === 'run' && index === 1 && /^(bun|deno)$/.test(runtime)) continue
    if (!word.startsWith('-')) return { script: word, rest: argv.slice(index + 1) }
    if (runtime.startsWith('python') && /^-[A-Za-z]*m$/.test(word)) return { module: argv[index + 1] ?? '' }
    if (isDeno ? /^(-c|--config|--import-map|--lock|--cert|--location|--seed|-L|--log-level)$/.test(word) : takesValue.test(word))
      index += 1
    else if (/^(-e|-p|-s|-m|--eval|--print)$/.test(word) || /^-[a-z]*c$/.test(word)) return undefined
  }
  return undefined
}

const takesValue = /^(-r|--require|--import|--loader|--experimental-loader|--conditions|-C|-W|-X|--cwd|--tsconfig)$/

function ofScript(script: string | undefined, isRuntime: boolean): Recognised | undefined {
  if (script === undefined) return undefined
  const packed = packageOf(script)
  const program = packed ?? (baseName(script).includes('.') ? undefined : programOf(baseName(script)))
  if (program !== undefined) return { kind: 'agent', name: program, isCertain: packed !== undefined || isRuntime }
  const inPackage = /(?:^|\/)node_modules\/((?:@[^/]+\/)?[^/]+)\/(?!.*\/node_modules\/)/.exec(script)?.[1]
  return mcpOf(inPackage ?? '') ?? mcpOf(plainName(script))
}

/** `node build/index.js` in a folder such as `weather-mcp`: how a server is run that was never published. */
export function serverByFolder(words: readonly string[], exe: string | undefined, cwd: string | undefined): Recognised | undefined {
  const argv = words.slice(0, mostWords).map((word) => word.slice(0, mostLetters))
  const name = plainName(exe ?? argv[0] ?? '')
  const script = runtimes.test(name) ? given(name, argv)?.script : undefined
  if (script === undefined || !/(^|\/)(index|server|main)\.([mc]?[jt]s|py)$/.test(script) || script.includes('node_modules/'))
    return undefined
  const folders = (script.startsWith('/') ? script : `${cwd ?? ''}/${script}`).split('/').slice(0, -1)
  const folder = folders.findLast((one) => /(^|[-_])mcp[-_]|[-_]mcp$/i.test(one) && !noServer.test(one))
  return folder === undefined ? undefined : { kind: 'mcp-server', name: folder, isCertain: false, isByFolder: true }
}

/** What a launcher was told to run: a package, or a program that may itself be told what to run. */
function ofLaunched(words: readonly string[] | undefined): Recognised | undefined {
  const [word = '', ...rest] = words ?? []
  const bare = bareName(word)
  const program = packageNames.get(bare)
  if (program !== undefined) return { kind: 'agent', name: program, isCertain: true }
  if (runners.test(bare)) return ofScript(given('node', [word, ...rest])?.script, true)
  if (runtimes.test(bare)) return ofRuntime(bare, [bare, ...rest])
  const called = programOf(plainName(bare))
  if (called !== undefined) return { kind: 'agent', name: called, isCertain: false }
  return packageOf(word) === undefined ? (mcpOf(bare) ?? mcpOf(plainName(bare))) : undefined
}

const wellKnown =
  /^@modelcontextprotocol\/server-|^(@[^/]+\/)?mcp-server-|^(@[^/]+\/)?.*-mcp(-server)?$|^@[^/]+\/mcp$|^mcp_server_|^mcp-remote$/

/** Who talks to such a server, tries it out or makes it. */
const noServer = /(^|[-_@/.])(clients?|tests?|spec|builds?|inspector|bench|lint|docs)([-_./]|$)/i

/** `mcp` as a whole word in the name of a package or a script. */
function mcpOf(name: string): Recognised | undefined {
  if (!/(^|[-_@/.])mcp([-_./]|$)/i.test(name) && !/^@modelcontextprotocol\//.test(name)) return undefined
  return noServer.test(name) ? undefined : { kind: 'mcp-server', name, isCertain: wellKnown.test(name) }
}
