import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { beforeAll, describe, expect, it } from 'vitest'
import { type Ended, ebb, temporaryHome } from '../../support/home.ts'
import { openWorkspaceAgents, type WorkspaceAgents } from '../../support/workspace-agents.ts'

/** `ebb archive` on a home, without a server. */

const text = ({ stdout }: Ended): string => stdout.toString()
const lines = (ended: Ended): readonly string[] => text(ended).trimEnd().split('\n')

/** Changes the agent's end in the database to this many days ago. */
function age(home: string, id: string, days: number): void {
  using db = new DatabaseSync(join(home, 'ebb.db'), { timeout: 5_000 })
  db.prepare('UPDATE agent SET completed_at = ? WHERE id = ?').run(new Date(Date.now() - days * 86_400_000).toISOString(), id)
}

const [builder, reviewer] = ['builder-120501-1a2b3c', 'reviewer-120502-4d5e6f']

async function twoAgents(scene: WorkspaceAgents): Promise<readonly [string, string]> {
  const script = 'i=0; while [ $i -lt 1000 ]; do echo "hello again"; i=$((i+1)); done; echo trouble >&2'
  const one = await scene.launch(builder, script, { progress: '{"progress":100}' })
  const other = await scene.launch(reviewer, 'printf "no end"')
  for (const { id } of [one, other]) await scene.ended(id)
  return [one.id, other.id]
}

describe('ebb archive', () => {
  let home: string
  let base: string
  let ids: readonly [string, string]
  const archived = (file: string): string => join(base, '.agent-workspace', 'TASK-1', 'archive', file)
  const cli = (...words: readonly string[]): Promise<Ended> => ebb(['archive', ...words], { home })

  beforeAll(async () => {
    home = temporaryHome()
    const scene = await openWorkspaceAgents({ home })
    base = scene.base
    ids = await twoAgents(scene)
    await scene[Symbol.asyncDispose]()
    age(home, ids[0], 10)
  })

  it('ls lists every archived stream with its path', async () => {
    const [table, json] = [await cli('ls'), await cli('ls', '--json')]
    expect(table.code).toBe(0)
    expect(lines(table)[0]).toMatch(/^ID +NAME +TASK +STREAM +BYTES +AGE +STORED +PATH$/)
    expect(text(table)).toMatch(
      new RegExp(`^${ids[0]} +${builder} +- +stdout +12000 +10d +plain +${archived(`${builder}_stream.jsonl`)}$`, 'm'),
    )
    const facts = JSON.parse(text(json)) as Record<string, unknown>[]
    expect(facts.find(({ stream, agentId }) => stream === 'progress' && agentId === ids[0])).toMatchObject({
      name: builder,
      agentType: 'builder',
      bytes: 17,
      isCompressed: false,
      path: archived(`${builder}_progress.jsonl`),
    })
  })

  it('show prints an archive by id, by a prefix of it, and by name', async () => {
    for (const word of [ids[0], ids[0].slice(0, 8), builder]) {
      const shown = await cli('show', word, 'stdout')
      expect([shown.code, text(shown)]).toEqual([0, 'hello again\n'.repeat(1_000)])
    }
    expect(text(await cli('show', reviewer))).toBe('no end')
    expect(lines(await cli('show', builder, '--json')).at(-1)).toBe('{"stream":"stderr","line":"trouble"}')
  })

  it.each([
    [[], 2, 'needs a subcommand: ls, show or prune'],
    [['list'], 2, 'has the subcommands ls, show and prune, not "list"'],
    [['constructor'], 2, 'has the subcommands ls, show and prune'],
    [['ls', 'x'], 2, 'does not take "x"'],
    [['show'], 2, 'needs the ID of an agent'],
    [['show', 'nobody-at-all'], 1, 'There is no archive of an agent "nobody-at-all"'],
    [['show', builder, 'stdin'], 2, 'has no archived stream "stdin"; it has stdout, progress, stderr'],
    [['prune', '--archive-max-age-days', 'soon'], 2, '--archive-max-age-days must be a number of days'],
  ] as const)('%j is refused with an error', async (words, code, sentence) => {
    const refused = await cli(...words)
    expect([refused.code, refused.stderr]).toEqual([code, expect.stringContaining(sentence)])
  })

  it('prune --dry-run lists what would be removed or compressed, and prune does it', async () => {
    const stream = archived(`${builder}_stream.jsonl`)
    const dry = await cli('prune', '--dry-run', '--archive-by-agent-type', 'builder=9')
    expect([dry.code, lines(dry)[0], existsSync(stream)]).toEqual([0, expect.stringMatching(`^would remove  ${ids[0]} ${builder}`), true])
    // By default, archives are compressed after seven days.
    const packed = await cli('prune')
    expect([packed.code, lines(packed)[0], existsSync(stream)]).toEqual([0, expect.stringMatching(`^compressed  ${ids[0]}`), false])
    expect(readFileSync(`${stream}.zst`).length).toBeLessThan(500)
    expect(text(await cli('show', builder, 'stdout'))).toBe('hello again\n'.repeat(1_000))
    const gone = JSON.parse(text(await cli('prune', '--json', '--archive-by-agent-type', 'builder=9'))) as Record<string, unknown>
    expect(gone).toMatchObject({ dryRun: false, removed: [{ agentId: ids[0], why: 'age' }], compressed: [], errors: [] })
    expect([existsSync(`${stream}.zst`), existsSync(archived(`${reviewer}_stream.jsonl`))]).toEqual([false, true])
    expect(text(await cli('prune'))).toBe('No archive is due for removal or compression.\n')
  })
})
