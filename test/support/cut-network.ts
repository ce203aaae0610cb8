import { execFileSync, spawn } from 'node:child_process'

/** As many networks of four addresses as the block has. */
const subnets = 32_768

/** On loopback, and of no other process: a port that was left here stays free for whoever comes back to it. */
export const ownAddress = `127.${64 + (process.pid >> 16)}.${(process.pid >> 8) & 255}.${process.pid & 255}`

/**
 * A second network on this machine, with one cable to ours that can be pulled: what is at its other end is then gone without
 * a word, as a machine without power is. Addresses are of the block for such tests (RFC 2544).
 */
export class CutNetwork implements Disposable {
  /** Of the network and of our end of the cable. */
  readonly #name: string
  /** Ours, as seen from there. */
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

  /** argv of a command that runs at the other end. */
  there(argv: readonly string[]): readonly string[] {
    return ['ip', 'netns', 'exec', this.#name, ...argv]
  }

  spawnThere(argv: readonly string[]): ReturnType<typeof spawn> {
    const [program = '', ...words] = this.there(argv)
    return spawn(program, words, { stdio: ['ignore', 'pipe', 'inherit'] })
  }

  /** Packets vanish in both directions, and nobody is told. */
  cut(): void {
    ip('-n', this.#name, 'link', 'set', 'there', 'down')
  }

  mend(): void {
    ip('-n', this.#name, 'link', 'set', 'there', 'up')
  }

  [Symbol.dispose](): void {
    // By itself it would go with the last connection in there, which may wait for an answer for minutes.
    ip('netns', 'exec', this.#name, 'ip', 'link', 'del', 'there')
    ip('netns', 'del', this.#name)
  }
}

const nameOf = (subnet: number): string => `ebbt${subnet}`

function addressIn(subnet: number, host: number): string {
  const place = subnet * 4 + host
  return `198.${18 + (place >> 16)}.${(place >> 8) & 255}.${place & 255}`
}

/** The names say which addresses are whose, and the kernel gives each of them once: another file takes the next. */
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
  throw new Error('Every network of the block for tests is taken.')
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
