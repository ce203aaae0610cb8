import { describe, expect, it } from 'vitest'
import type { Agent } from '../../../src/core/model/agent.ts'
import { bodyOf, draftNoteOf, draftOf, emptyDraft, placementOptions, problemsOf } from '../../../web/src/agents/draft.ts'
import { filterOf, matches, queryOf } from '../../../web/src/agents/filter.ts'
import { wordsOf } from '../../../web/src/agents/words.ts'
import type { ProviderInput } from '../../../web/src/api/shapes.ts'

const agent = (more: Partial<Agent> = {}): Agent => ({
  id: '6f0f7a2e-9c60-4f6a-9d3c-2f7f0f8f6a11',
  type: 'command',
  status: 'running',
  placement: 'process',
  namespace: 'default',
  session: { id: 's', prompt: 'Sweep the beach', messageCount: 1, configuration: {} },
  createdAt: '2026-11-16T15:00:00.000Z',
  ...more,
})

describe('wordsOf', () => {
  it('wordsOf: splits a command line like a shell', () => {
    expect(wordsOf(`sh -c 'echo "a b"; exit 3' "" a\\ b "c'd" e"f g"`)).toEqual([
      'sh',
      '-c',
      'echo "a b"; exit 3',
      '',
      'a b',
      "c'd",
      'ef g',
    ])
    expect(wordsOf('  ')).toEqual([])
    expect(wordsOf(`sh -c 'open`)).toBeUndefined()
  })

  it('draftOf: quotes a command so that wordsOf returns the same words', () => {
    const command = ['sh', '-c', `it's "quoted" $HOME\n`, '', 'plain']
    const draft = draftOf(agent(), { type: 'command', prompt: '', configuration: { command } })
    expect(wordsOf(draft.command)).toEqual(command)
  })
})

describe('draft of an earlier agent', () => {
  const synthetic = agent({ type: 'synthetic', requestId: 'r-1', namespace: 'night' })

  it('draftOf: contains what the server returned, and leaves the rest empty', () => {
    const draft = draftOf(synthetic, undefined)
    expect(bodyOf(draft, ['schedule'])).toEqual({
      type: 'synthetic',
      prompt: 'Sweep the beach',
      placement: 'process',
      namespace: 'night',
      requestId: 'r-1',
    })
    expect(draft.schedule).toBe('')
    expect(draftNoteOf(undefined)).toContain('The server does not return the command line or schedule of an agent,')
  })

  it('draftOf: contains all settings of an agent launched from this tab', () => {
    const schedule = [{ delay: 1, type: 'complete', data: { success: true } }]
    const body = { type: 'synthetic', prompt: 'Sweep the beach', requestId: 'r-1', configuration: { schedule } }
    expect(bodyOf(draftOf(synthetic, body), ['schedule']).configuration).toEqual({ schedule })
    expect(draftNoteOf(body)).toBe('All settings are filled in as they were launched from this tab.')
  })
})

describe('launch form', () => {
  it('bodyOf: contains only the fields that were filled in', () => {
    const draft = { ...emptyDraft, type: 'claude-code', prompt: 'Sweep', workingDirectory: ' /srv/beach ', model: 'opus' }
    expect(bodyOf(draft, [])).toEqual({
      type: 'claude-code',
      prompt: 'Sweep',
      configuration: { workingDirectory: '/srv/beach', model: 'opus' },
    })
  })

  it('bodyOf: contains the fields of the chosen provider only', () => {
    const draft = { ...emptyDraft, type: 'any', prompt: 'Sweep', command: 'true', schedule: '[1]' }
    expect([[], ['command'], ['schedule']].map((inputs) => bodyOf(draft, inputs as readonly ProviderInput[]).configuration)).toEqual([
      undefined,
      { command: ['true'] },
      { schedule: [1] },
    ])
  })

  it('placementOptions: the default first, then what can be used, and a placement that was chosen before', () => {
    const placement = { title: 'Here', isAvailable: true, isDefault: false, hasHost: false }
    const placements = [
      { ...placement, name: 'there', title: 'There' },
      { ...placement, name: 'here', isDefault: true },
      { ...placement, name: 'unset', title: 'Unset', isAvailable: false },
    ]
    const usual = [
      { value: '', text: 'Here (default)' },
      { value: 'there', text: 'There' },
    ]
    for (const chosen of ['', 'here', 'there']) expect(placementOptions(placements, chosen), chosen).toEqual(usual)
    expect(placementOptions(placements, 'unset')).toEqual([...usual, { value: 'unset', text: 'Unset' }])
    expect(placementOptions(placements, 'unknown')).toEqual([...usual, { value: 'unknown', text: 'unknown' }])
    expect(placementOptions([], '')).toEqual([{ value: '', text: 'default' }])
  })

  it('bodyOf: names a command without prompt and name after its program, without its arguments', () => {
    const draft = { ...emptyDraft, type: 'command', command: '/usr/bin/deploy --token secret' }
    const body = bodyOf(draft, ['command'])
    expect(body.configuration).toEqual({ conversationName: 'deploy', command: ['/usr/bin/deploy', '--token', 'secret'] })
    expect(bodyOf({ ...draft, prompt: 'Sweep' }, ['command']).configuration).toEqual({ command: ['/usr/bin/deploy', '--token', 'secret'] })
    expect(bodyOf({ ...draft, name: 'Sweeper' }, ['command']).configuration?.conversationName).toBe('Sweeper')
    expect(bodyOf({ ...draft, command: './' }, ['command']).configuration?.conversationName).toBeUndefined()
    expect(bodyOf({ ...draft, command: 'x'.repeat(300) }, ['command']).configuration?.conversationName).toHaveLength(100)
    // The default name of an agent is not copied to the form, because the user may change the program.
    const session = { id: 's', prompt: '', messageCount: 1, configuration: { conversationName: 'deploy' } }
    expect(draftOf(agent({ session }), body).name).toBe('')
    expect(draftOf(agent({ session }), undefined).name).toBe('deploy')
  })

  it('problemsOf: reports invalid fields before the request is sent', () => {
    expect([...problemsOf(emptyDraft, []).keys()]).toEqual(['type', 'prompt'])
    expect([...problemsOf({ ...emptyDraft, type: 'command', workingDirectory: 'here' }, ['command']).keys()]).toEqual([
      'command',
      'workingDirectory',
    ])
    expect([...problemsOf({ ...emptyDraft, type: 'synthetic', prompt: 'x', schedule: '{' }, ['schedule']).keys()]).toEqual(['schedule'])
    expect(problemsOf({ ...emptyDraft, type: 'synthetic', prompt: 'x' }, ['schedule']).size).toBe(0)
  })
})

describe('filter', () => {
  it('matches: finds words in any order, in prompt, name and id', () => {
    const found = (search: string, one = agent({ name: 'The Sweeper' })): boolean =>
      matches(one, { ...filterOf(new URLSearchParams()), search })
    expect(found('beach SWEEP')).toBe(true)
    expect(found('sweeper 6f0f7a2e')).toBe(true)
    expect(found('beach dune')).toBe(false)
  })

  it('matches: accepts the groups active and ended, and the former name living', () => {
    const has = (status: string, of: Agent['status']): boolean =>
      matches(agent({ status: of }), { ...filterOf(new URLSearchParams()), status })
    expect([
      has('active', 'stuck'),
      has('living', 'stuck'),
      has('ended', 'failed'),
      has('failed', 'failed'),
      has('active', 'failed'),
    ]).toEqual([true, true, true, true, false])
  })

  it('queryOf and filterOf: are inverse to each other', () => {
    const filter = { status: 'ended', provider: 'codex', namespace: '', search: 'a & b' }
    expect(filterOf(new URLSearchParams(queryOf(filter)))).toEqual(filter)
    expect(queryOf(filterOf(new URLSearchParams()))).toBe('')
  })
})
