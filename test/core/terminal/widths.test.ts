import { describe, expect, it } from 'vitest'
import { speakingClaude, speech } from '../../support/conversation-program.ts'
import { ebbProgram, temporaryHome } from '../../support/home.ts'
import { needs } from '../../support/real.ts'
import { useServer } from '../../support/shared-server.ts'
import { Terminal } from '../../support/terminal.ts'

/** The output at 60, 100 and 200 columns. No line is wider than the terminal, so the terminal wraps none. */

needs('tmux')

const server = useServer()

/** Characters whose width is often computed wrong, and some that would damage the screen. */
const prompt = `Mend 界界 the \u001b[2Jtest 👩‍👩‍👧 ❤️ e\u0301e\u0301 🇩🇪 한글 ｗｉｄｅ\u202e, ${'then make everything faster '.repeat(12)}`

/** Requires that the terminal wrapped no line: the joined lines equal those on the screen. */
function requireWhole(terminal: Terminal): readonly string[] {
  const lines = (text: string): string[] =>
    text
      .trimEnd()
      .split('\n')
      .map((line) => line.trimEnd())
  const { screen, written } = terminal.atOnce()
  const shown = lines(screen)
  expect(lines(written)).toEqual(shown)
  return shown
}

async function agent(): Promise<string> {
  const id = await server.command(['sh', '-c', 'echo ready; sleep 1000 & wait'], { prompt })
  await server.get(`/api/agents/${id}/messages?since=1&wait=10000`)
  return id
}

describe.each([60, 100, 200])('cli widths: at %d columns', (columns) => {
  it('ps, status and show fit, and show more where there is more room', async () => {
    const id = (await agent()).slice(0, 8)
    const ended = await server.command(['true'], { prompt: 'hello' })
    await server.get(`/api/agents/${ended}/status?wait=10000`)
    await using terminal = await Terminal.open({ EBB_HOME: server.home, E: ebbProgram }, { columns, rows: 70 })
    terminal.type('$E ps --all; $E status')
    await terminal.shows(/^process-tree +1 +0 +0$/m)
    terminal.type(`$E show ${id}; $E show ${ended.slice(0, 8)}`)
    await terminal.shows(/^Resources \(\d+ released\)[\s\S]*prompt>$/m)
    const lines = requireWhole(terminal)
    const head = lines.find((line) => line.startsWith('ID ')) ?? ''
    expect(head.includes('PLACEMENT')).toBe(columns > 60)
    expect(lines.find((line) => line.startsWith(id))).toMatch(/ Mend 界界 .*…$/)
    expect(lines).toContain('KIND          HELD  CLOSING  STUCK')
    expect(lines.join('\n')).toMatch(/^ +\d+ +\S+ .?B +\d+s {2}sh\n +\d+ +\S+ .?B +\d+s {2}└─ sleep$/m)
    expect(lines.join('\n')).toMatch(/^ {2}└─ process-tree +sh in .* {2}held$/m)
    // The line shows the strength of the proof and as much of its text as fits.
    expect(lines.join('\n')).toMatch(/ {2}released, kernel: \S/)
  })

  it('run shows a conversation: text is wrapped at words, a tool is one line, its result a few', async () => {
    const folder = temporaryHome()
    const result = Array.from({ length: 126 }, (_, index) => `line ${index} ${'of what the tool said '.repeat(12)}`).join('\n')
    speakingClaude(folder, [
      speech.text(`I see. ${'Words that are long enough to need wrapping, 界界 and 👍 too. '.repeat(4)}\n\n    code stays\n      indented`),
      speech.call('t1', 'Bash', { command: `npm test -- ${'--more '.repeat(40)}` }),
      speech.result('t1', result),
      speech.text('All done.\u001b]0;stolen\u0007'),
      speech.end('All done.'),
    ])
    await using terminal = await Terminal.open({ EBB_HOME: temporaryHome(), E: ebbProgram, P: folder }, { columns, rows: 70 })
    terminal.type('PATH=$P:$PATH $E run claude-code Fix it, please')
    await terminal.shows(/^✓ completed in [\s\S]*prompt>$/m)
    const text = requireWhole(terminal).join('\n')
    expect(text).toMatch(/^❯ Fix it, please\n\n⏺ I see\. Words/m)
    expect(text).toMatch(/\n {6}code stays\n {8}indented\n/)
    expect(text).toMatch(/^⏺ Bash {2}npm test -- --more .*…$/m)
    expect(text).toMatch(/^ {2}⎿ line 0 .*…?\n( {4}line \d .*\n){5} {4}… 120 more lines\n\n⏺ All done\.\n\n✓ completed/m)
    expect(text.replaceAll(/\s+/g, ' ')).toMatch(/✓ completed in [\d.]+ m?s · 6 messages · \d+ resources released, proof: kernel/)
  })

  it('top shows the agents, and leaves out the least important columns where there is no room', async () => {
    const id = (await agent()).slice(0, 8)
    await using terminal = await Terminal.open({ EBB_HOME: server.home, E: ebbProgram }, { columns, rows: 20 })
    terminal.type('$E top')
    const messages = columns > 60 ? '2 +' : ''
    await terminal.shows(new RegExp(`^❯ ${id} +command .*running +\\d+s +${messages}\\S+B +2 +Mend`, 'm'))
    const lines = requireWhole(terminal)
    expect(lines).toHaveLength(20)
    expect(lines[0]).toMatch(/^ebb top · http:\/\/127\.0\.0\.1:\d+ · \d\d:\d\d:\d\d UTC$/)
    expect(lines[1]).toMatch(/^1 agent · 2 processes · .*B of memory · 2 messages$/)
    expect(lines[2]).toBe('Nothing is stuck, held back or leaked.')
    expect(lines.find((line) => line.startsWith(`❯ ${id}`))?.endsWith('…')).toBe(true)
    expect(lines.at(-1)).toContain('? help')
    terminal.press('q')
    await terminal.shows(/prompt>$/m)
  })
})

it('cli widths: the counts of status are wrapped where they do not fit', async () => {
  await agent()
  await using terminal = await Terminal.open({ EBB_HOME: server.home, E: ebbProgram }, { columns: 40, rows: 30 })
  terminal.type('clear; $E status')
  await terminal.shows(/^process-tree[\s\S]*prompt>$/m)
  expect(requireWhole(terminal).slice(0, 3)).toEqual([
    'Agents are running; nothing is stuck.',
    '1 agent, 2 messages, 2 processes, 0',
    'subscriptions.',
  ])
})
