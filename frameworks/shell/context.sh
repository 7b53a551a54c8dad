# Reading of binding contexts. Paths are written as in `context::get snapshots.pods.0.filterResult` or 'labels."a.b/c"'.

# jq of the image where there is one; ours otherwise.
if command -v jq >/dev/null; then
  windlass::jq() { jq "$@"; }
else
  windlass::jq() { windlass jq "$@"; }
fi

# A filter over the list of all contexts.
context::global::jq() {
  windlass::jq "$@" "$BINDING_CONTEXT_PATH"
}

# A filter over the current context.
context::jq() {
  windlass::jq ".[${BINDING_CONTEXT_CURRENT_INDEX:-0}]" "$BINDING_CONTEXT_PATH" | windlass::jq "$@"
}

# The steps of a path as a list in JSON: dots part them, but not within quotes; numbers are indexes.
context::_steps() {
  local path="${1:-}" steps="" step quote c i
  step="" quote=""
  local -a found=()
  for ((i = 0; i < ${#path}; i++)); do
    c="${path:i:1}"
    if [[ -n "$quote" ]]; then
      if [[ "$c" == "$quote" ]]; then quote=""; else step+="$c"; fi
    elif [[ "$c" == '"' || "$c" == "'" ]]; then
      quote="$c"
    elif [[ "$c" == . ]]; then
      if [[ -n "$step" ]]; then found+=("$step"); fi
      step=""
    else
      step+="$c"
    fi
  done
  if [[ -n "$step" ]]; then found+=("$step"); fi
  for step in ${found[@]+"${found[@]}"}; do
    if [[ "$step" =~ ^[0-9]+$ ]]; then
      steps+=",$step"
    else
      step="${step//\\/\\\\}"
      steps+=",\"${step//\"/\\\"}\""
    fi
  done
  printf '[%s]' "${steps#,}"
}

# Whether there is something at a path, null or not.
context::has() {
  local steps
  steps="$(context::_steps "${1:-}")"
  context::jq -e --argjson steps "$steps" \
    'if $steps == [] then true else getpath($steps[:-1]) as $at | $steps[-1] as $last
     | if ($at | type) == "object" then ($last | type) == "string" and ($at | has($last))
       elif ($at | type) == "array" then ($last | type) == "number" and $last < ($at | length)
       else false end end' >/dev/null
}

# The value at a path; with --required it must be there.
context::get() {
  local steps
  if [[ "${1:-}" == --required ]]; then
    shift
    if ! context::has "${1:-}"; then
      printf 'there is nothing at %s in the context of %s\n' "${1:-}" "${BINDING_CONTEXT_CURRENT_BINDING:-}" >&2
      return 1
    fi
  fi
  steps="$(context::_steps "${1:-}")"
  context::jq -r --argjson steps "$steps" 'getpath($steps)'
}

context::_is() {
  local steps
  steps="$(context::_steps "$1")"
  context::jq -e --argjson steps "$steps" "getpath(\$steps) == $2" >/dev/null
}

context::is_true() { context::_is "${1:-}" true; }
context::is_false() { context::_is "${1:-}" false; }
context::is_null() { context::_is "${1:-}" null; }
