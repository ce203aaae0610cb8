/**
 * The completion scripts. They know no command or option. They pass the words of the line to `ebb __complete -- WORD…`; the last word is
 * the one to complete. The answer is a line that says what may stand there (`Completion.kind`), and then a line for each candidate, with a tab
 * before its description. The scripts print no errors, because those would appear in the line that the user types.
 */

/** The completion script for bash 3.2, the version of macOS, and newer. */
const bash = `# Completion of ebb for bash. In ~/.bashrc: source <(ebb completion bash)

# Splits at line ends, because names may have spaces. "-o filenames" makes readline quote them; bash 3.2 has no compopt.
_ebb_files() {
  local IFS=$'\\n'
  COMPREPLY=($(compgen "$@" -- "$cur"))
  compopt -o filenames 2>/dev/null || :
}

_ebb() {
  local cur=\${COMP_WORDS[COMP_CWORD]} answer kind word description before i n=-1 joins=
  local -a words
  COMPREPLY=()
  # bash splits words at "=" and ":" too. They are joined again.
  for ((i = 1; i <= COMP_CWORD; i++)); do
    case \${COMP_WORDS[i]} in
      [=:]*) [ "$n" -ge 0 ] || n=0; joins=next ;;
      *) [ -n "$joins" ] || n=$((n + 1)); joins= ;;
    esac
    words[n]=\${words[n]:-}\${COMP_WORDS[i]}
  done
  case $cur in [=:]*) cur= ;; esac
  before=\${words[n]%"$cur"}
  answer=$("\${COMP_WORDS[0]}" __complete -- "\${words[@]}" </dev/null 2>/dev/null) || return 0
  {
    read -r kind
    case $kind in
      files) _ebb_files -f ;;
      folders) _ebb_files -d ;;
      "command $n") _ebb_files -c -f ;;
      command*) _ebb_files -f ;;
      *) while IFS=$'\\t' read -r word description; do COMPREPLY+=("\${word#"$before"}"); done ;;
    esac
  } <<<"$answer"
}

complete -F _ebb ebb
`

/** The completion script for zsh, which uses zsh's own completion system. */
const zsh = `#compdef ebb
# Completion of ebb for zsh. In ~/.zshrc, after compinit: source <(ebb completion zsh)
_ebb() {
  local -a answer all
  local kind line
  answer=("\${(@f)$("\${(Q)words[1]}" __complete -- "\${(@Q)words[2,CURRENT-1]}" "$PREFIX" </dev/null 2>/dev/null)}")
  kind=$answer[1]
  case $kind in
    files) compset -P '--*='; _files ;;
    folders) compset -P '--*='; _files -/ ;;
    command*)
      # The command begins at this word, not counting the first, which is ebb.
      local -i skipped=$((\${kind#command } + 1))
      shift $skipped words
      ((CURRENT -= skipped))
      _normal
      ;;
    *)
      # _describe takes entries WORD:DESCRIPTION.
      for line in \${answer[2,-1]}; do
        line=\${line//:/\\\\:}
        all+=("\${line/$'\\t'/:}")
      done
      (( $#all )) && _describe ebb all
      ;;
  esac
}

if [ "$funcstack[1]" = _ebb ]; then _ebb "$@"; else compdef _ebb ebb; fi
`

/** The completion script for fish 3 and newer. */
const fish = `# Completion of ebb for fish. Once: ebb completion fish > ~/.config/fish/completions/ebb.fish
function __ebb_complete
  set -l words (commandline -opc)
  set -l program $words[1]
  set -e words[1]
  set -l current (commandline -ct)
  set -l answer ($program __complete -- $words "$current" </dev/null 2>/dev/null)
  set -l option (string match -r -- '^--[a-z-]+=' "$current")
  set -l value (string replace -r -- '^--[a-z-]+=' '' "$current")
  switch "$answer[1]"
    case files
      printf '%s\\n' "$option"(complete -C "'' $value")
    case folders
      printf '%s\\n' "$option"(complete -C "'' $value" | string match -r '^[^\\t]*/(?:\\t.*)?$')
    case 'command *'
      # Lists begin at 1 in fish.
      set -l first (math (string replace 'command ' '' -- "$answer[1]") + 1)
      set -e words[1..(math $first - 1)]
      complete -C (string join ' ' -- (string escape -- $words) "$current")
    case '*'
      printf '%s\\n' $answer[2..-1]
  end
end

complete -c ebb -f -a '(__ebb_complete)'
`

export const completionScripts = { bash, zsh, fish } as const
