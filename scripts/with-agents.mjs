// with-agents.mjs CMD…: runs a command with the real agents on its PATH. Where possible it runs in a network namespace with loopback only, so that no
// agent can reach another server. EBB_AGENT_CLIS is the folder of the agents, and EBB_AGENTS_NETWORK is `loopback` or `open`.
import { spawn, spawnSync } from 'node:child_process'
import { agentClis, say } from './agent-clis.mjs'

/** The commands that make a network namespace: the first for root, the second for a user who may be root in a user namespace. */
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
  if (!wrapping)
    say('no network namespace can be created here ("unshare --net" and "ip" are needed): running with the network of the machine.')
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
  // This process ignores SIGINT, because it must wait for the child. Ctrl-C reaches the child directly, and a second signal would stop the child's
  // clean-up.
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
