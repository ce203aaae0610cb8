# Starts Ebb on the right Node. Sourced by bin/ebb, with the path of that script in $ebb_script. Every variable is called ebb_…, because
# assigning to one that is exported would change the environment of the command. It runs at every start, so it forks as little as it can.

ebb_root=${ebb_script%/*}/..

# A shell drops variables whose names it cannot use, such as BASH_FUNC_x%%. They are passed on in hexadecimal.
ebb_invalid='^[^=]*[^A-Za-z0-9_=]'
if grep -zqs "$ebb_invalid" "/proc/$$/environ" 2>/dev/null; then
  EBB_BESIDE=$(grep -zs "$ebb_invalid" "/proc/$$/environ" | od -An -v -tx1 | tr -d ' \n')
  export EBB_BESIDE
fi

# The Node that package-lock.json pins, else the one on the PATH.
ebb_node=$ebb_root/node_modules/node/bin/node
[ -x "$ebb_node" ] || ebb_node=node

# The bundle, unless this is a checkout with a source that is newer. dist/fresh.sh sets $ebb_from; a published package has no sources.
ebb_from=dist
if [ -d "$ebb_root/src" ]; then
  ebb_from=src
  [ -f "$ebb_root/dist/fresh.sh" ] && . "$ebb_root/dist/fresh.sh"
fi

# Node forgets at its start which signals are ignored (by nohup, for example): field 33 of proc_pid_stat(5), of which the first two are cut off.
ebb_found=
ignored_signals() { ebb_found=${31}; }
read -r ebb_line 2>/dev/null <"/proc/$$/stat" && ignored_signals ${ebb_line##*) }

# Node closes the open descriptors beside stdio (of a make jobserver, or of <(…)) to its children. Those that are not marked
# close-on-exec are passed on: 02000000 in the flags of proc_pid_fdinfo(5).
for ebb_path in /proc/$$/fd/*; do
  ebb_number=${ebb_path##*/}
  [ "$ebb_number" -gt 2 ] 2>/dev/null || continue
  { read -r ebb_line; read -r ebb_line ebb_flags; } 2>/dev/null <"/proc/$$/fdinfo/$ebb_number" || continue
  case $ebb_flags in *[2367]??????) ;; *) ebb_found=$ebb_found,$ebb_number ;; esac
done

# A run of one command lasts milliseconds: without helper threads for V8 it starts 4 % faster.
ebb_pool=
[ "$1" = exec ] && ebb_pool=--v8-pool-size=0

exec "$ebb_node" --disable-warning=ExperimentalWarning --min-semi-space-size=16 $ebb_pool "$ebb_root/bin/start.cjs" "$ebb_from" "$ebb_found" "$@"
