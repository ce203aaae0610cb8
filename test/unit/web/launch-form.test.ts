import { describe, expect, it } from 'vitest'
import type { Agent } from '../../../src/core/model/agent.ts'
import { bodyOf, draftOf, emptyDraft, keptOf, problemsOf } from '../../../web/src/agents/draft.ts'
import { filterOf, matches, queryOf } from '../../../web/src/agents/filter.ts'
import { wordsOf } from '../../../web/src/agents/words.ts'

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

describe('a command line', () => {
  it('is taken apart as a shell would', () => {
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

  it('comes back the same after an agent was launched with it', () => {
    const command = ['sh', '-c', `it's "quoted" $HOME\n`, '', 'plain']
    const draft = draftOf(agent(), { type: 'command', prompt: '', configuration: { command } })
    expect(wordsOf(draft.command)).toEqual(command)
  })
})

describe('the form of an agent that was', () => {
  const synthetic = agent({ type: 'synthetic', requestId: 'r-1', namespace: 'night' })

  it('has what the server kept, and makes nothing up', () => {
    const draft = draftOf(synthetic, undefined)
    expect(bodyOf(draft)).toEqual({
      type: 'synthetic',
      prompt: 'Sweep the beach',
      placement: 'process',
      namespace: 'night',
      requestId: 'r-1',
    })
    expect(draft.schedule).toBe('')
    expect(keptOf(synthetic, undefined)).toContain('It does not give back its schedule,')
    expect(keptOf(agent(), undefined)).toContain('It does not give back its command line,')
  })

  it('has everything that this tab launched it with', () => {
    const schedule = [{ delay: 1, type: 'complete', data: { success: true } }]
    const body = { type: 'synthetic', prompt: 'Sweep the beach', requestId: 'r-1', configuration: { schedule } }
    expect(bodyOf(draftOf(synthetic, body)).configuration).toEqual({ schedule })
    expect(keptOf(synthetic, body)).toBe('Everything is filled in as it was launched from this tab.')
  })
})

describe('the launch form', () => {
  it('says only what was filled in', () => {
    const draft = { ...emptyDraft, type: 'claude-code', prompt: 'Sweep', workingDirectory: ' /srv/beach ', model: 'opus' }
    expect(bodyOf(draft)).toEqual({
      type: 'claude-code',
      prompt: 'Sweep',
      configuration: { workingDirectory: '/srv/beach', model: 'opus' },
    })
  })

  it('calls a command without a prompt and a name by its program, and by none of its arguments', () => {
    const draft = { ...emptyDraft, type: 'command', command: '/usr/bin/deploy --token secret' }
    const body = bodyOf(draft)
    expect(body.configuration).toEqual({ conversationName: 'deploy', command: ['/usr/bin/deploy', '--token', 'secret'] })
    expect(bodyOf({ ...draft, prompt: 'Sweep' }).configuration).toEqual({ command: ['/usr/bin/deploy', '--token', 'secret'] })
    expect(bodyOf({ ...draft, name: 'Sweeper' }).configuration?.conversationName).toBe('Sweeper')
    expect(bodyOf({ ...draft, command: './' }).configuration?.conversationName).toBeUndefined()
    expect(bodyOf({ ...draft, command: 'x'.repeat(300) }).configuration?.conversationName).toHaveLength(100)
    // Launched again with another program it has another name.
    const session = { id: 's', prompt: '', messageCount: 1, configuration: { conversationName: 'deploy' } }
    expect(draftOf(agent({ session }), body).name).toBe('')
    expect(draftOf(agent({ session }), undefined).name).toBe('deploy')
  })

  it('knows what is wrong before anybody is asked', () => {
    expect([...problemsOf(emptyDraft).keys()]).toEqual(['type', 'prompt'])
    expect([...problemsOf({ ...emptyDraft, type: 'command', workingDirectory: 'here' }).keys()]).toEqual(['command', 'workingDirectory'])
    expect([...problemsOf({ ...emptyDraft, type: 'synthetic', prompt: 'x', schedule: '{' }).keys()]).toEqual(['schedule'])
    expect(problemsOf({ ...emptyDraft, type: 'synthetic', prompt: 'x' }).size).toBe(0)
  })
})

describe('a filter', () => {
  it('finds by words in any order, in prompt, name and id', () => {
    const found = (search: string, one = agent({ name: 'The Sweeper' })): boolean =>
      matches(one, { ...filterOf(new URLSearchParams()), search })
    expect(found('beach SWEEP')).toBe(true)
    expect(found('sweeper 6f0f7a2e')).toBe(true)
    expect(found('beach dune')).toBe(false)
  })

  it('knows the living and the ended besides each status', () => {
    const has = (status: string, of: Agent['status']): boolean =>
      matches(agent({ status: of }), { ...filterOf(new URLSearchParams()), status })
    expect([has('living', 'stuck'), has('ended', 'failed'), has('failed', 'failed'), has('living', 'failed')]).toEqual([
      true,
      true,
      true,
      false,
    ])
  })

  it('goes through the address and back', () => {
    const filter = { status: 'ended', provider: 'codex', namespace: '', search: 'a & b' }
    expect(filterOf(new URLSearchParams(queryOf(filter)))).toEqual(filter)
    expect(queryOf(filterOf(new URLSearchParams()))).toBe('')
  })
})
