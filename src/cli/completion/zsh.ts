import { type CompletedCommand, type CompletedFlag, quoted, type Vocabulary } from './vocabulary.ts'

/** The completion script for zsh. It needs only zsh's own completion system. */
export function zshScript({ commands }: Vocabulary): string {
  const byValue = new Map<string, CompletedFlag>(commands.flatMap(({ flags }) => flags).map((flag) => [flag.name, flag]))
  return `#compdef ebb
# Completion of ebb for zsh. In ~/.zshrc, after compinit: source <(ebb completion zsh)
_ebb_agents() {
  local -a found
  found=(\${(f)"$(\${words[1]} completion agents </dev/null 2>/dev/null)"})
  compadd -a found
}

_ebb() {
  local -a all
  if (( CURRENT == 2 )); then
    all=(
${commands.map(({ name, summary }) => `      ${quoted(`${name}:${summary}`)}`).join('\n')}
    )
    _describe command all
    return
  fi
  local end=\${words[(i)--]}
  if (( end < CURRENT )); then
    # After "--" follows the command line of another program.
    shift $end words
    (( CURRENT -= end ))
    _normal
    return
  fi
  case \${words[CURRENT-1]} in
${[...byValue.values()].flatMap(valueCase).join('\n')}
  esac
  case \${words[2]} in
${commands.map(commandCase).join('\n')}
  esac
}

if [ "$funcstack[1]" = _ebb ]; then _ebb "$@"; else compdef _ebb ebb; fi
`
}

function valueCase({ name, value }: CompletedFlag): readonly string[] {
  if (value === 'none') return []
  const found = typeof value === 'string' ? files[value] : `compadd -- ${value.join(' ')}`
  return [`    ${name}) ${found}; return ;;`]
}

const files = { file: '_files', folder: '_files -/', any: '_message value' } as const

function commandCase({ name, flags, words, takesAgents }: CompletedCommand): string {
  // _describe takes entries WORD:DESCRIPTION.
  const described = flags.map((flag) => quoted(`${flag.name}:${flag.help}`)).join(' ')
  const first = words.length === 0 ? [] : [`(( CURRENT == 3 )) && compadd -- ${words.join(' ')}`]
  const others = takesAgents ? ['_ebb_agents'] : []
  return `    ${name}) if [[ $PREFIX == -* ]]; then all=(${described}); _describe option all; else ${[...first, ...others, 'true'].join('; ')}; fi ;;`
}
