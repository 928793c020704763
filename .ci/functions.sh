# What .ci/run and .ci/release share.

failed=()
summary=()

# step NAME COMMAND...: runs it, and keeps the line that sums it up.
step() {
  local name=$1 log
  shift
  log=$(mktemp)
  echo "=== $name: $*"
  "$@" 2>&1 </dev/null | tee "$log" || failed+=("$name")
  summary+=("$name: $( (grep -E '[0-9]+ (passed|failed|error)' "$log" || cat "$log") | tail -n 1)")
  rm "$log"
}

# find_python VERSION: a Python of that version that really runs; a version manager's shim may not.
find_python() {
  local candidate
  for candidate in "python$1" "$(pyenv root 2>/dev/null)"/versions/"$1".*/bin/python \
    "$(uv python find "$1" 2>/dev/null)"; do
    if "$candidate" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

skip() {
  echo "=== SKIPPED $1: no $2 on this machine"
  summary+=("$1: SKIPPED, no $2 on this machine")
}

# conclude: prints the summary, and fails if a step did.
conclude() {
  echo "=== Summary"
  printf '%s\n' "${summary[@]}"
  if ((${#failed[@]})); then
    echo "FAILED: ${failed[*]}"
    return 1
  fi
}
