import { type AgentArchive, Retention, type RetentionPass } from '../../agents/retention.ts'
import { retentionRules } from '../../config/retention.ts'
import { EbbError } from '../../core/model/errors.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Supervisor } from '../../supervisor.ts'
import type { Arguments } from '../arguments.ts'
import type { CommandDefinition, Wiring } from '../command.ts'
import { openUnwatched } from '../open.ts'
import { type Output, plainOutput } from '../output.ts'
import { type Column, layOut } from '../terminal/columns.ts'
import { withStatusLine } from '../terminal/status-line.ts'
import type { Style } from '../terminal/style.ts'
import { ageOf, cut, many, shortId } from '../terminal/text.ts'

export const definition: CommandDefinition = {
  name: 'archive',
  summary: 'list and read the logs of ended agents, or apply the retention now',
  usage: 'ebb archive ls | show ID [STREAM] | prune [--dry-run]  [--json]',
  examples: [
    'ebb archive ls',
    'ebb archive show 1a2b3c4d',
    'ebb archive show reviewer-120501-1a2b3c stderr',
    'ebb archive prune --dry-run --archive-max-age-days 7',
    'ebb archive prune --archive-max-bytes 2g --archive-by-agent-type reviewer=3',
  ],
  options: [
    'home',
    'logLevel',
    'store',
    'archiveMaxAgeDays',
    'archiveMaxBytes',
    'archiveTaskMaxBytes',
    'archiveCompressAfterDays',
    'archiveByAgentType',
  ],
  switches: ['dry-run', 'json', 'help'],
  takesWords: { names: ['a subcommand: ls, show or prune'], most: 3, offers: (given) => (given.length === 0 ? [...verbs.keys()] : []) },
  run,
}

/** `ebb archive` reads the home and needs no server. */
async function run(args: Arguments, wiring: Wiring): Promise<number> {
  const [verb = '', ...words] = [...args.words, ...args.rest]
  const command = verbs.get(verb)
  if (!command) throw new EbbError('bad_usage', `"ebb archive" has the subcommands ls, show and prune, not "${verb}".`)
  const most = verb === 'show' ? 2 : 0
  if (words.length > most) throw new EbbError('bad_usage', `"ebb archive ${verb}" does not take "${words[most] ?? ''}".`)
  const supervisor = await openUnwatched(args, wiring)
  try {
    return await command({ args, words, supervisor, retention: retentionOf(supervisor), output: plainOutput(), clock: wiring.clock })
  } finally {
    await supervisor.close()
  }
}

const verbs: ReadonlyMap<string, (call: Call) => Promise<number>> = new Map([
  ['ls', list],
  ['show', show],
  ['prune', prune],
])

interface Call {
  readonly args: Arguments
  readonly words: readonly string[]
  readonly supervisor: Supervisor
  readonly retention: Retention
  readonly output: Output
  readonly clock: Clock
}

function retentionOf({ agents, archives, clock, log, config }: Supervisor): Retention {
  return new Retention({ store: agents, archives, clock, log, rules: retentionRules(config) })
}

/** Lists the archives, newest first, as `ebb ps` lists agents. */
async function list({ args, retention, supervisor, output: { out, painted, style } }: Call): Promise<number> {
  const nowMs = Date.parse(supervisor.clock.wall())
  const archives: AgentArchive[] = []
  for await (const archive of retention.archives()) archives.push(archive)
  if (args.switches.has('json')) out(`${JSON.stringify(archives.flatMap(factsOf), null, 2)}\n`)
  else if (archives.length === 0) out('There are no archived logs.\n')
  else painted(`${rows(archives, nowMs, style).join('\n')}\n`)
  return 0
}

function factsOf({ agent, agentType, files, endedMs }: AgentArchive): readonly object[] {
  return files.map((file) => ({
    agentId: agent.id,
    ...(agent.name !== undefined && { name: agent.name }),
    agentType,
    ...(agent.taskId !== undefined && { taskId: agent.taskId }),
    ...file,
    endedAt: new Date(endedMs).toISOString(),
  }))
}

/** The path is the last column, because it may be long. */
const columns: readonly Column[] = [
  { name: 'ID', rank: 8 },
  { name: 'NAME', least: 8, rank: 5 },
  { name: 'TASK', least: 8, rank: 2 },
  { name: 'STREAM', least: 6, rank: 7 },
  { name: 'BYTES', rank: 6 },
  { name: 'AGE', rank: 4 },
  { name: 'STORED', rank: 1 },
  { name: 'PATH', least: 12, rank: 3 },
]

function rows(archives: readonly AgentArchive[], nowMs: number, { width, palette }: Style): readonly string[] {
  const cells = archives.flatMap(({ agent, files, endedMs }) =>
    files.map(({ stream, bytes, isCompressed, path }) => [
      { text: width === undefined ? agent.id : shortId(agent.id), paint: palette.accent },
      { text: agent.name ?? '-' },
      { text: agent.taskId ?? '-' },
      { text: stream },
      { text: String(bytes) },
      { text: ageOf(endedMs, nowMs) },
      { text: isCompressed ? 'compressed' : 'plain' },
      { text: path },
    ]),
  )
  return layOut(columns, cells, width, palette.faint)
}

/** Prints the streams of an agent one after the other, or only the given one, byte for byte. With --json, each line is an object. */
async function show({ args, words, retention, supervisor, output }: Call): Promise<number> {
  const [word, stream] = words
  if (word === undefined) throw new EbbError('bad_usage', '"ebb archive show" needs the ID of an agent; "ebb archive ls" lists them.')
  const archive = await find(retention, word)
  const files = archive.files.filter((file) => stream === undefined || file.stream === stream)
  if (files.length === 0) {
    const known = archive.files.map((file) => file.stream).join(', ')
    throw new EbbError('bad_usage', `The agent ${archive.agentId} has no archived stream "${stream ?? ''}"; it has ${known}.`)
  }
  for (const file of files) {
    const isJson = args.switches.has('json')
    // The heading is only for terminals: a pipe gets the content and nothing else.
    if (files.length > 1 && !isJson && process.stdout.isTTY) output.out(`==> ${file.stream} <==\n`)
    const text = supervisor.archives.read(file)
    if (isJson) for await (const line of linesOf(text)) output.out(`${JSON.stringify({ stream: file.stream, line })}\n`)
    else for await (const piece of decoded(text)) output.out(piece)
  }
  return 0
}

/** Decodes pieces as UTF-8. A character may be split between two pieces. */
async function* decoded(pieces: AsyncIterable<Uint8Array>): AsyncIterable<string> {
  const decoder = new TextDecoder()
  for await (const piece of pieces) {
    yield decoder.decode(piece, { stream: true })
    await drained()
  }
  yield decoder.decode()
}

async function* linesOf(pieces: AsyncIterable<Uint8Array>): AsyncIterable<string> {
  let open = ''
  for await (const text of decoded(pieces)) {
    const lines = (open + text).split('\n')
    open = lines.pop() ?? ''
    yield* lines
  }
  if (open !== '') yield open
}

/** Waits for a slow reader, so that an archive of gigabytes is not buffered in memory. */
async function drained(): Promise<void> {
  if (process.stdout.writableNeedDrain) await new Promise<void>((resolve) => process.stdout.once('drain', resolve))
}

/** The minimum length of the beginning of an id. A shorter one may easily be the beginning of another agent's id too. */
const minPrefixLength = 4

async function find(retention: Retention, word: string): Promise<AgentArchive> {
  const wanted = word.toLowerCase()
  const found: AgentArchive[] = []
  for await (const archive of retention.archives()) {
    if (archive.agentId === wanted || archive.agent.name === word) return archive
    if (wanted.length >= minPrefixLength && archive.agentId.startsWith(wanted)) found.push(archive)
  }
  const [only] = found
  if (only && found.length === 1) return only
  if (only) throw new EbbError('agent_not_found', `"${word}" matches ${found.length} agents; give more characters of the id.`)
  throw new EbbError('agent_not_found', `There is no archive of an agent "${word}"; "ebb archive ls" lists the archives.`)
}

async function prune({ args, retention, output: { out }, clock }: Call): Promise<number> {
  const dryRun = args.switches.has('dry-run')
  const pass = await withStatusLine(clock, args.switches.has('json'), 'applying the retention', () => retention.pass({ dryRun }))
  if (args.switches.has('json')) out(`${JSON.stringify(asJson(pass, dryRun), null, 2)}\n`)
  else out(`${[...linesOfPass(pass, dryRun), ...pass.errors].join('\n')}\n`)
  return pass.errors.length > 0 ? 1 : 0
}

function linesOfPass({ removed, compressed, freedBytes }: RetentionPass, dryRun: boolean): readonly string[] {
  if (removed.length + compressed.length === 0) return ['No archive is due for removal or compression.']
  const [remove, compress] = dryRun ? ['would remove', 'would compress'] : ['removed', 'compressed']
  return [
    ...removed.map(({ archive, why }) => `${remove}  ${nameOf(archive)}  ${archive.bytes} bytes (${why})`),
    ...compressed.map((archive) => `${compress}  ${nameOf(archive)}  ${archive.bytes} bytes`),
    dryRun
      ? `${many(removed.length, 'archive')} of ${freedBytes} bytes would be removed, ${compressed.length} would be compressed.`
      : `${many(removed.length, 'archive')} removed, ${compressed.length} compressed, ${freedBytes} bytes freed.`,
  ]
}

function nameOf({ agent }: AgentArchive): string {
  return agent.name === undefined ? agent.id : `${agent.id} ${cut(agent.name, 60)}`
}

function asJson({ removed, compressed, freedBytes, errors }: RetentionPass, dryRun: boolean): object {
  return {
    dryRun,
    removed: removed.map(({ archive, why }) => ({ agentId: archive.agentId, why, bytes: archive.bytes, files: archive.files })),
    compressed: compressed.map((archive) => ({ agentId: archive.agentId, bytes: archive.bytes, files: archive.files })),
    freedBytes,
    errors,
  }
}
