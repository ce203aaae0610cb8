import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { expect, it } from 'vitest'

/** With only loopback in its network namespace, no agent can have contacted another host. */
it.skipIf(process.env.EBB_AGENTS_NETWORK !== 'loopback')(
  'network: no public address is reachable, checked without sending a packet',
  async () => {
    const devices = [...readFileSync('/proc/self/net/dev', 'utf8').matchAll(/^\s*(\S+):/gm)].map(([, name]) => name)
    expect(devices).toEqual(['lo'])
    // Addresses for documentation (RFC 5737, RFC 3849), which belong to no host.
    for (const host of ['192.0.2.1', '2001:db8::1']) {
      const code = await new Promise((resolve) => {
        const socket = connect({ host, port: 443 })
        socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code))
        socket.once('connect', () => resolve('connected'))
      })
      expect(code).toBe('ENETUNREACH')
    }
  },
)
