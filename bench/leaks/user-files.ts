/**
 * What in a HOME is the user's and no leak, by name. Everything that is not listed here counts as left, for every way alike,
 * also what a program never takes away itself. A name that ends in `/` is everything below that folder; `*` is part of one name.
 */
export const userFiles: readonly UserFiles[] = [
  {
    what: 'settings',
    names: [
      ...['.claude.json', '.claude/.claude.json', '.claude/settings.json', '.claude/backups/', '.claude/plugins/'],
      ...['.codex/config.toml', '.codex/installation_id', '.codex/.sandbox_migration', '.codex/skills/'],
      ...['.gemini/settings.json', '.gemini/projects.json', '.config/opencode/'],
    ],
  },
  {
    what: 'transcripts and history',
    names: [
      ...['.claude/projects/', '.codex/sessions/', '.gemini/history/'],
      ...['.gemini/tmp/*/.project_root', '.gemini/tmp/*/chats/', '.gemini/tmp/*/logs/'],
    ],
  },
  { what: 'databases', names: ['.codex/*.sqlite*', '.local/share/opencode/opencode.db*'] },
  { what: 'caches and logs', names: ['.cache/', '.local/share/opencode/log/', '.local/share/opencode/repos/'] },
]

/** Made once, for all runs; when nothing is in them, nothing is left. */
export const standingFolders: readonly string[] = [
  ...['.claude/sessions/', '.claude/session-env/', '.claude/shell-snapshots/'],
  ...['.codex/shell_snapshots/', '.codex/thread-writer-locks/', '.codex/tmp/arg0-linux/', '.local/state/opencode/locks/'],
]

interface UserFiles {
  readonly what: string
  readonly names: readonly string[]
}

const patterns = userFiles.flatMap(({ names }) => names.map(patternOf))

/** The path from the HOME on; that of an empty folder ends in `/`. */
export function isOfUser(path: string): boolean {
  return standingFolders.includes(path) || patterns.some((pattern) => pattern.test(path))
}

function patternOf(name: string): RegExp {
  const parts = name.split('*').map((part) => RegExp.escape(part))
  return new RegExp(`^${parts.join('[^/]*')}${name.endsWith('/') ? '' : '$'}`)
}
