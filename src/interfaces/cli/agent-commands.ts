import type { CommandEntry } from './cli.ts'

/** The commands about agents, which talk to the running server; loaded only when one of them, or the help, is asked for. */

const everywhere = ['home', 'logLevel', 'url', 'token'] as const
const oneAgent = { names: ['the ID of an agent'], most: 1 }
const someAgents = { names: ['the ID of an agent'], most: Number.POSITIVE_INFINITY }

export const agentCommands: readonly CommandEntry[] = [
  {
    name: 'run',
    summary: 'one agent in the foreground: on the running server, else on an engine of its own',
    usage: 'ebb run PROVIDER PROMPT… [options]  (or: ebb run command [INPUT…] -- COMMAND [ARGUMENT…])',
    examples: [
      'ebb run claude-code "Fix the flaky test"',
      'ebb run codex Fix the flaky test --cwd ../project --timeout 20m',
      'ebb run gemini-cli - --model gemini-2.5-pro --keep',
      'ebb run command -- npm test',
      'ebb run command "two lines of input" -- sort',
    ],
    options: [...everywhere, 'placement', 'cwd', 'model', 'timeout', 'keep', 'namespace', 'grace', 'containment'],
    switches: ['json', 'help'],
    takesWords: { names: ['a PROVIDER'], most: Number.POSITIVE_INFINITY },
    load: () => import('./run.ts'),
  },
  {
    name: 'ps',
    summary: 'the agents of the running server that have not ended',
    usage: 'ebb ps [--all] [--namespace NAME] [--json]',
    examples: ['ebb ps', 'ebb ps --all --json', 'ebb ps --namespace worker-3'],
    options: [...everywhere, 'namespace'],
    switches: ['all', 'json', 'help'],
    load: () => import('./ps.ts'),
  },
  {
    name: 'show',
    summary: 'one agent, its processes as they are now, and what it made',
    usage: 'ebb show ID [--json]',
    examples: ['ebb show 1a2b3c4d', 'ebb show 1a2b3c4d --json'],
    options: everywhere,
    switches: ['json', 'help'],
    takesWords: oneAgent,
    load: () => import('./show.ts'),
  },
  {
    name: 'logs',
    summary: 'what an agent said; with -f, until it has ended',
    usage: 'ebb logs ID [-f] [--json]',
    examples: ['ebb logs 1a2b3c4d', 'ebb logs -f 1a2b3c4d', 'ebb logs --json 1a2b3c4d'],
    options: everywhere,
    switches: ['follow', 'json', 'help'],
    letters: { f: 'follow' },
    takesWords: oneAgent,
    load: () => import('./logs.ts'),
  },
  {
    name: 'stop',
    summary: 'end agents, proven; their rows and messages stay',
    usage: 'ebb stop ID… [--grace 5s] [--force] [--json]',
    examples: ['ebb stop 1a2b3c4d --grace 30s', 'ebb stop 1a2b3c4d 5e6f7a8b --force'],
    options: [...everywhere, 'grace'],
    switches: ['force', 'json', 'help'],
    takesWords: someAgents,
    load: () => import('./stop.ts'),
  },
  {
    name: 'rm',
    summary: 'end agents, proven, and delete everything of them: rows, messages and archives',
    usage: 'ebb rm ID… [--force] [--json]',
    examples: ['ebb rm 1a2b3c4d', 'ebb rm 1a2b3c4d 5e6f7a8b --force'],
    options: everywhere,
    switches: ['force', 'json', 'help'],
    takesWords: someAgents,
    load: () => import('./rm.ts'),
  },
  {
    name: 'reset',
    summary: 'everything of a server with --test-endpoints, or of one namespace, goes, proven',
    usage: 'ebb reset [--namespace NAME] [--force] [--json]',
    examples: ['ebb reset', 'ebb reset --namespace worker-3 --force'],
    options: [...everywhere, 'namespace'],
    switches: ['force', 'json', 'help'],
    load: () => import('./reset.ts'),
  },
]
