import { execFileSync, spawn } from 'node:child_process'

/** The number of /30 networks in 198.18.0.0/15. */
const subnets = 32_768

/** A loopback address that no other test process uses. A port that was closed here stays free until it is used again. */
export const ownAddress = `127.${64 + (process.pid >> 16)}.${(process.pid >> 8) & 255}.${process.pid & 255}`

/**
 * A second network on this host, connected by a veth pair that can be cut. After the cut, a peer in the second network is gone without FIN
 * or RST, like a host that lost its power. Addresses are from 198.18.0.0/15, the block for such tests (RFC 2544).
 */
export class CutNetwork implements Disposable {
  /** Name of the network namespace and of the host's end of the veth pair. */
  readonly #name: string
  /** The address of this host in the second network. */
  readonly address: string

  constructor() {
    const subnet = claim()
    this.#name = nameOf(subnet)
    this.address = addressIn(subnet, 1)
    try {
      ip('addr', 'add', `${this.address}/30`, 'dev', this.#name)
      ip('link', 'set', this.#name, 'up')
      ip('-n', this.#name, 'addr', 'add', `${addressIn(subnet, 2)}/30`, 'dev', 'there')
      ip('-n', this.#name, 'link', 'set', 'there', 'up')
      ip('-n', this.#name, 'link', 'set', 'lo', 'up')
    } catch (error) {
      ip('netns', 'del', this.#name)
      throw error
    }
  }

  /** argv of a command that runs inside the second network. */
  there(argv: readonly string[]): readonly string[] {
    return ['ip', 'netns', 'exec', this.#name, ...argv]
  }

  spawnThere(argv: readonly string[]): ReturnType<typeof spawn> {
    const [program = '', ...words] = this.there(argv)
    return spawn(program, words, { stdio: ['ignore', 'pipe', 'inherit'] })
  }

  /** Drops packets in both directions, without an error at either end. */
  cut(): void {
    ip('-n', this.#name, 'link', 'set', 'there', 'down')
  }

  mend(): void {
    ip('-n', this.#name, 'link', 'set', 'there', 'up')
  }

  [Symbol.dispose](): void {
    // The kernel would remove the link only with the last connection in the namespace, which may wait for an answer for minutes.
    ip('netns', 'exec', this.#name, 'ip', 'link', 'del', 'there')
    ip('netns', 'del', this.#name)
  }
}

const nameOf = (subnet: number): string => `ebbt${subnet}`

function addressIn(subnet: number, host: number): string {
  const place = subnet * 4 + host
  return `198.${18 + (place >> 16)}.${(place >> 8) & 255}.${place & 255}`
}

/**
 * Claims a free network by creating the namespace and the link of its name. The kernel creates each name once, so test files that run at
 * the same time get different networks.
 */
function claim(): number {
  for (let tries = 0; tries < subnets; tries++) {
    const subnet = (process.pid + tries) % subnets
    const name = nameOf(subnet)
    if (!isNew('netns', 'add', name)) continue
    let hasCable = false
    try {
      hasCable = isNew('link', 'add', name, 'type', 'veth', 'peer', 'name', 'there', 'netns', name)
      if (hasCable) return subnet
    } finally {
      if (!hasCable) ip('netns', 'del', name)
    }
  }
  throw new Error('Every network of 198.18.0.0/15 is taken. Remove old ones with: ip netns del ebbtN')
}

function isNew(...words: readonly string[]): boolean {
  try {
    ip(...words)
    return true
  } catch (error) {
    if (String(error).includes('File exists')) return false
    throw error
  }
}

function ip(...words: readonly string[]): void {
  execFileSync('ip', words, { stdio: ['ignore', 'ignore', 'pipe'] })
}
