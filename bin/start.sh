# Starts Ebb on the right Node. bin/ebb sources this script, and $ebb_script is the path of bin/ebb. The names of variables begin with ebb_,
# because assigning to an exported variable would change the environment of the command. This script runs at every start, so it forks
# as little as possible.

ebb_root=${ebb_script%/*}/..

# A shell drops variables whose names it cannot use, such as BASH_FUNC_x%%. They are passed on in hexadecimal. With LC_ALL=C grep reads no
# locale, and compares bytes.
ebb_invalid='^[^=]*[^A-Za-z0-9_=]'
if LC_ALL=C grep -zqs "$ebb_invalid" "/proc/$$/environ" 2>/dev/null; then
  EBB_BESIDE=$(LC_ALL=C grep -zs "$ebb_invalid" "/proc/$$/environ" | od -An -v -tx1 | tr -d ' \n')
  export EBB_BESIDE
fi

# Uses the Node that package-lock.json pins, else the one on the PATH.
ebb_node=$ebb_root/node_modules/node/bin/node
[ -x "$ebb_node" ] || ebb_node=node

# Runs the bundle, unless this is a checkout in which a source is newer. dist/fresh.sh sets $ebb_from. A published package has no sources.
ebb_from=dist
if [ -d "$ebb_root/src" ]; then
  ebb_from=src
  [ -f "$ebb_root/dist/fresh.sh" ] && . "$ebb_root/dist/fresh.sh"
fi

# Node forgets at its start which signals are ignored (by nohup, for example). Field 33 of proc_pid_stat(5) has them. It is ${31} here,
# because the first two fields are cut off.
ebb_found=
ignored_signals() { ebb_found=${31}; }
read -r ebb_line 2>/dev/null <"/proc/$$/stat" && ignored_signals ${ebb_line##*) }

# Node does not pass open descriptors other than stdio (of a make jobserver, or of <(…)) to its children. So the descriptors that are
# not marked close-on-exec (02000000 in the flags of proc_pid_fdinfo(5)) are listed here, and Ebb passes them on.
for ebb_path in /proc/$$/fd/*; do
  ebb_number=${ebb_path##*/}
  [ "$ebb_number" -gt 2 ] 2>/dev/null || continue
  { read -r ebb_line; read -r ebb_line ebb_flags; } 2>/dev/null <"/proc/$$/fdinfo/$ebb_number" || continue
  case $ebb_flags in *[2367]??????) ;; *) ebb_found=$ebb_found,$ebb_number ;; esac
done

# `ebb exec` of a short command lasts milliseconds: without helper threads for V8, and with just enough memory for new objects that no
# garbage collection happens, it starts 5 % faster. Other commands have the memory that a server needs.
ebb_flags=--min-semi-space-size=16
[ "$1" = exec ] && ebb_flags='--min-semi-space-size=4 --v8-pool-size=1'

exec "$ebb_node" --disable-warning=ExperimentalWarning $ebb_flags "$ebb_root/bin/start.cjs" "$ebb_from" "$ebb_found" "$@"
