import { bareName, isLauncher, launchedBy } from './launcher.ts'

/**
 * Recognises agent programs and MCP servers by what runs: the executable, the script of an interpreter, or the program that a
 * launcher such as `npx` starts. A matching word elsewhere in the arguments does not count.
 */

export type AgentProgram = 'claude' | 'codex' | 'gemini' | 'opencode'

export interface Recognised {
  readonly kind: 'agent' | 'mcp-server'
  /** The name of the agent program, or of the package of the MCP server. */
  readonly name: string
  /** True when the package or the binary identifies the program; false when only a script name or `argv[0]` does. */
  readonly isCertain: boolean
  /** True when only the folder of the script identifies the program, so that its streams are needed as further evidence. */
  readonly isByFolder?: boolean
}

const programs: readonly AgentProgram[] = ['claude', 'codex', 'gemini', 'opencode']

/** Package folders that identify a script or a binary whatever its file name is. */
const packages: readonly (readonly [RegExp, AgentProgram])[] = [
  [/(^|\/)@anthropic-ai\/claude-code(-[a-z0-9-]+)?\//, 'claude'],
  [/(^|\/)@openai\/codex(-[a-z0-9-]+)?\//, 'codex'],
  [/(^|\/)@google\/gemini-cli(-[a-z0-9-]+)?\//, 'gemini'],
  [/(^|\/)node_modules\/opencode(-ai|-[a-z0-9]+-[a-z0-9-]+)\//, 'opencode'],
  // The native installer of claude names the binary after its version.
  [/\/claude\/versions\/[^/]+$/, 'claude'],
]

/** Package names as given to `npx` and other launchers. */
const packageNames: ReadonlyMap<string, AgentProgram> = new Map([
  ['@anthropic-ai/claude-code', 'claude'],
  ['@openai/codex', 'codex'],
  ['@google/gemini-cli', 'gemini'],
  ['opencode-ai', 'opencode'],
])

const runtimes = /^(node|nodejs|bun|deno|java|MainThread)$|^python[\d.]*$/
const shells = /^(sh|bash|dash|zsh|ksh|fish|ash|busybox)$/
/** Scripts that start the script in their arguments as a child process. */
const runners = /^(tsx|ts-node)$/

export function isShell(program: string): boolean {
  return shells.test(program.replace(/^-/, ''))
}

export const baseName = (path: string): string => path.slice(path.lastIndexOf('/') + 1)

/** The base name of a path without an extension, a wrapper's decoration (`.claude-wrapped`) or the kernel's ` (deleted)`. */
const plainName = (path: string): string =>
  baseName(path)
    .replace(/ \(deleted\)$/, '')
    .replace(/\.(exe|[mc]?js|[mc]?ts|py|jar)$/, '')
    .replace(/^\.(.+)-wrapped_*$/, '$1')

const mostWords = 64
const mostLetters = 4_096

/** `exe` is the target of `/proc/PID/exe`, if it was readable. `words` is the command line, which the process can change. */
export function recognise(words: readonly string[], exe: string | undefined): Recognised | undefined {
  // A longer word is not a path (PATH_MAX is 4096), and words after the 64th do not identify the program.
  const argv = words.slice(0, mostWords).map((word) => word.slice(0, mostLetters))
  const [first = ''] = argv
  const runs = exe === undefined ? first : exe.replace(/ \(deleted\)$/, '')
  // Electron and Chromium start their child processes with --type=; the desktop applications have the same names as the agent programs.
  if (argv.some((word) => word.startsWith('--type='))) return undefined
  const name = plainName(runs)
  const called = programOf(plainName(first))
  const binary = packageOf(runs) ?? (name === called ? called : undefined)
  if (binary !== undefined) return { kind: 'agent', name: binary, isCertain: true }
  const byWords = ofWords(name, argv)
  // A process can set its `argv[0]` to anything, so `argv[0]` alone is not certain evidence.
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

/** In Node, assigning `process.title` replaces the whole command line by the title. */
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
  // `bun run NAME` runs a script of a package, unless NAME is a file.
  return name === 'bun' && argv[1] === 'run' && !/[./]/.test(script) ? undefined : ofScript(script, true)
}

/** True for `tsx` and `ts-node`, and for a script inside of their packages. */
const isRunner = (script: string): boolean => runners.test(baseName(script)) || /\/node_modules\/(tsx|ts-node)\/dist\//.test(script)

interface Given {
  readonly script?: string
  readonly module?: string
  readonly rest?: readonly string[]
}

/**
 * What an interpreter runs: the first word that is not an option, or the module after `-m`. Undefined when the code itself is an argument
 * (`-e`, `-c`).
 */
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

/** Recognises an unpublished MCP server: `node build/index.js` in a folder such as `weather-mcp`. */
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

/** Recognises what a launcher runs: a package, or an interpreter with a script of its own. */
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

/** Names of MCP clients, test tools and build tools, which are not servers. */
const noServer = /(^|[-_@/.])(clients?|tests?|spec|builds?|inspector|bench|lint|docs)([-_./]|$)/i

/** Recognises an MCP server by `mcp` as a whole word in the name of a package or a script. */
function mcpOf(name: string): Recognised | undefined {
  if (!/(^|[-_@/.])mcp([-_./]|$)/i.test(name) && !/^@modelcontextprotocol\//.test(name)) return undefined
  return noServer.test(name) ? undefined : { kind: 'mcp-server', name, isCertain: wellKnown.test(name) }
}
