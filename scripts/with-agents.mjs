// with-agents.mjs CMD…: runs a command with the real agents on its PATH, where possible in a network that has nothing but
// loopback: then no agent talks to anybody but us, whatever it tries. EBB_AGENT_CLIS and EBB_AGENTS_NETWORK say how it went.
import { spawn, spawnSync } from 'node:child_process'
import { agentClis, say } from './agent-clis.mjs'

/** As root, and as somebody who may at least be root in a namespace of their own. */
const ways = [
  ['unshare', '--net'],
  ['unshare', '--map-root-user', '--net'],
]
const inside = ['sh', '-c', 'ip link set lo up && exec "$@"', 'sh']

function loopbackOnly() {
  const way = ways.find(([program, ...words]) => spawnSync(program, [...words, ...inside, 'true']).status === 0)
  return way && [...way, ...inside]
}

async function main(command) {
  const { bin, versions } = await agentClis()
  const wrapping = loopbackOnly()
  if (!wrapping) say('no network namespace can be made here ("unshare --net" and "ip" are needed): running with the network as it is.')
  say(
    Object.entries(versions)
      .map((pair) => pair.join(' '))
      .join(', '),
  )
  const [program, ...words] = [...(wrapping ?? []), ...command]
  const env = {
    ...process.env,
    EBB_AGENT_CLIS: bin,
    EBB_AGENT_VERSIONS: JSON.stringify(versions),
    EBB_AGENTS_NETWORK: wrapping ? 'loopback' : 'open',
  }
  const child = spawn(program, words, { stdio: 'inherit', env })
  // Ours to wait for. Ctrl-C reaches it by itself, and a second one would keep it from cleaning up.
  process.on('SIGINT', () => {})
  for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  return await new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code) => resolve(code ?? 1))
  })
}

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  say(error.message)
  process.exitCode = 1
}
