import { type CompletedCommand, type CompletedFlag, quoted, type Vocabulary } from './vocabulary.ts'

/** The completion script for fish 3 and newer. */
export function fishScript({ commands }: Vocabulary): string {
  return `# Completion of ebb for fish. Once: ebb completion fish > ~/.config/fish/completions/ebb.fish
function __ebb_agents
  ebb completion agents </dev/null 2>/dev/null
end

# Whether the command is this one; with a number, whether so many words are before the cursor.
function __ebb_is
  set -l words (commandline -opc)
  test "$words[2]" = "$argv[1]"; and test -z "$argv[2]" -o "$argv[2]" = (count $words)
end

complete -c ebb -f
${commands.map(({ name, summary }) => `complete -c ebb -n '__ebb_is "" 1' -a ${name} -d ${text(summary)}`).join('\n')}
${commands.flatMap(linesOf).join('\n')}
`
}

function linesOf({ name, flags, words, takesAgents, takesCommand }: CompletedCommand): readonly string[] {
  const here = (more = ''): string => `complete -c ebb -n '__ebb_is ${name}${more}'`
  return [
    ...flags.map((flag) => `${here()} -l ${flag.name.slice(2)}${valueWords(flag)} -d ${text(flag.help)}`),
    ...(words.length > 0 ? [`${here(' 2')} -a ${text(words.join(' '))}`] : []),
    ...(takesAgents ? [`${here()} -a '(__ebb_agents)'`] : []),
    ...(takesCommand ? [`${here()} -a '(__fish_complete_subcommand)'`] : []),
  ]
}

function valueWords({ value }: CompletedFlag): string {
  if (value === 'none') return ''
  if (value === 'file') return ' -r -F'
  if (value === 'folder') return " -x -a '(__fish_complete_directories)'"
  return value === 'any' ? ' -x' : ` -x -a ${text(value.join(' '))}`
}

/** Quotes a text for fish. Within single quotes, fish has two escapes: for the quote and for the backslash. */
function text(words: string): string {
  return quoted(words.replaceAll('\\', '\\\\')).replaceAll("'\\''", "\\'")
}
