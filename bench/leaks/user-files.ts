/**
 * Files in HOME that belong to the user and are not leaks. Every other file counts as left, for all ways, also files that a program never
 * removes itself. A name that ends in `/` means everything below that folder. `*` matches within one name.
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

/** Folders that are created once for all runs. An empty one does not count as left. */
export const standingFolders: readonly string[] = [
  ...['.claude/sessions/', '.claude/session-env/', '.claude/shell-snapshots/'],
  ...['.codex/shell_snapshots/', '.codex/thread-writer-locks/', '.codex/tmp/arg0-linux/', '.local/state/opencode/locks/'],
]

interface UserFiles {
  readonly what: string
  readonly names: readonly string[]
}

const patterns = userFiles.flatMap(({ names }) => names.map(patternOf))

/** `path` is relative to HOME. The path of an empty folder ends in `/`. */
export function isOfUser(path: string): boolean {
  return standingFolders.includes(path) || patterns.some((pattern) => pattern.test(path))
}

function patternOf(name: string): RegExp {
  const parts = name.split('*').map((part) => RegExp.escape(part))
  return new RegExp(`^${parts.join('[^/]*')}${name.endsWith('/') ? '' : '$'}`)
}
