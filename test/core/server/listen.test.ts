import { fastify } from 'fastify'
import { expect, it } from 'vitest'
import { listen } from '../../../src/server/http/listen.ts'

it('listen: a failed accept is logged, and the next connection is served', async () => {
  const lines: string[] = []
  const app = fastify({ logger: { level: 'error', stream: { write: (line: string) => void lines.push(line) } } })
  app.get('/', async () => 'here')
  const listening = await listen(app, '127.0.0.1', 0)
  try {
    app.server.emit('error', Object.assign(new Error('accept EMFILE'), { code: 'EMFILE' }))
    expect(lines).toEqual([expect.stringContaining('EMFILE')])
    expect(await (await fetch(`http://127.0.0.1:${listening.port}/`)).text()).toBe('here')
  } finally {
    await listening.close()
  }
})
