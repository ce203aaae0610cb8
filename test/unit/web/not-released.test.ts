import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { fetchNotReleased } from '../../../web/src/api/closes.ts'

/** The list of agents that could not be released, with a fake server. */

const answers = new Map<string, { readonly status: number; readonly body: unknown }>()

beforeEach(() => {
  answers.clear()
  vi.stubGlobal('sessionStorage', { getItem: () => null })
  vi.stubGlobal('fetch', async (path: string) => {
    const { status, body } = answers.get(path.split('?')[0] ?? '') ?? { status: 500, body: { message: 'The server failed.' } }
    return new Response(JSON.stringify(body), { status })
  })
})
afterEach(() => vi.unstubAllGlobals())

const stuck = { kind: 'file', name: '/f', state: 'stuck' }
const agents = (...list: readonly (readonly [id: string, status: string])[]): void =>
  void answers.set('/api/agents', { status: 200, body: list.map(([id, status]) => ({ id, status })) })
const resources = (id: string, status: number, body: unknown): void => void answers.set(`/api/agents/${id}/resources`, { status, body })

const fetched = async (): Promise<unknown> => await fetchNotReleased(new AbortController().signal)

it('fetchNotReleased: lists stuck and held-back resources, and leaves out agents that are merely stopping', async () => {
  agents(['a', 'stuck'], ['b', 'stopping'], ['c', 'stuck'])
  resources('a', 200, [
    stuck,
    { kind: 'log', name: '/l', state: 'closing', error: 'held back' },
    { kind: 'x', name: 'x', state: 'closing' },
  ])
  resources('b', 200, [{ kind: 'x', name: 'x', state: 'closing' }])
  resources('c', 200, [])
  expect(await fetched()).toMatchObject([
    { agent: { id: 'a' }, left: [stuck, { name: '/l' }] },
    { agent: { id: 'c' }, left: [] },
  ])
})

it('fetchNotReleased: resources that cannot be read are a problem of their agent, and never an empty list', async () => {
  agents(['a', 'stopping'], ['b', 'stuck'])
  resources('b', 200, [stuck])
  expect(await fetched()).toMatchObject([
    { agent: { id: 'a' }, problem: 'The server failed.' },
    { agent: { id: 'b' }, left: [stuck] },
  ])
})

it('fetchNotReleased: an agent that was deleted meanwhile is left out', async () => {
  agents(['a', 'stuck'])
  resources('a', 404, { code: 'agent_not_found', message: 'There is no such agent.' })
  expect(await fetched()).toEqual([])
})
