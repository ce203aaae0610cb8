import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { expect, it } from 'vitest'

/** Where nothing but loopback is, no agent can have talked to anybody but us, whatever it tried. */
it.skipIf(process.env.EBB_AGENTS_NETWORK !== 'loopback')(
  'no public address can be reached from here, and no packet is sent to find out',
  async () => {
    const devices = [...readFileSync('/proc/self/net/dev', 'utf8').matchAll(/^\s*(\S+):/gm)].map(([, name]) => name)
    expect(devices).toEqual(['lo'])
    // An address for documentation (RFC 5737, RFC 3849), which belongs to nobody.
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
