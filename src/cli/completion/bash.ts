import type { CompletedCommand, CompletedFlag, Vocabulary } from './vocabulary.ts'

/** The completion script for bash 3.2, the version of macOS, and newer. */
export function bashScript({ commands }: Vocabulary): string {
  const names = commands.map(({ name }) => name)
  const byValue = new Map<string, CompletedFlag>(commands.flatMap(({ flags }) => flags).map((flag) => [flag.name, flag]))
  return `# Completion of ebb for bash. In ~/.bashrc: source <(ebb completion bash)
_ebb_agents() {
  "\${COMP_WORDS[0]}" completion agents </dev/null 2>/dev/null
}

# Splits at line ends, because names may have spaces. "-o filenames" makes readline quote them; bash 3.2 has no compopt.
_ebb_files() {
  local IFS=$'\\n'
  COMPREPLY=($(compgen "$@" -- "$cur"))
  compopt -o filenames 2>/dev/null || :
}

_ebb() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD - 1]} words= i
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W ${JSON.stringify([...names, '--help', '--version'].join(' '))} -- "$cur"))
    return
  fi
  for ((i = 2; i < COMP_CWORD; i++)); do
    if [ "\${COMP_WORDS[i]}" = -- ]; then
      if [ "$prev" = -- ]; then _ebb_files -c -f; else _ebb_files -f; fi
      return
    fi
  done
  case $prev in
${[...byValue.values()].flatMap(valueCase).join('\n')}
  esac
  case \${COMP_WORDS[1]} in
${commands.map(commandCase).join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}

complete -F _ebb ebb
`
}

function valueCase({ name, value }: CompletedFlag): readonly string[] {
  if (value === 'none') return []
  const offer = typeof value === 'string' ? offers[value] : `COMPREPLY=($(compgen -W "${value.join(' ')}" -- "$cur"))`
  return [`    ${name}) ${offer}; return ;;`]
}

const offers = { file: '_ebb_files -f', folder: '_ebb_files -d', any: 'COMPREPLY=()' } as const

function commandCase({ name, flags, words, takesAgents, takesCommand }: CompletedCommand): string {
  const first = words.length === 0 ? [] : [`[ "$COMP_CWORD" -eq 2 ] && words="${words.join(' ')}"`]
  const others = takesAgents ? ['words=$(_ebb_agents)'] : takesCommand ? ['words=--'] : []
  const flagWords = flags.map((flag) => flag.name).join(' ')
  return `    ${name}) case $cur in -*) words="${flagWords}" ;; *) ${[...first, ...others, ':'].join('; ')} ;; esac ;;`
}
