#!/bin/bash
# What hooks in bash source: strict mode, a trace of where a hook failed, and the functions of the shell framework.

set -Eeuo pipefail
shopt -s inherit_errexit failglob

windlass::trace() {
  local status=$? frame
  printf 'exit status %d at:\n' "$status" >&2
  for ((frame = 1; frame < ${#FUNCNAME[@]}; frame++)); do
    printf '  %s:%d in %s\n' "${BASH_SOURCE[frame]}" "${BASH_LINENO[frame - 1]}" "${FUNCNAME[frame]}" >&2
  done
}
trap windlass::trace ERR

# Images have the framework in one of two places, and a checkout beside this file.
for windlass_dir in "$(dirname "${BASH_SOURCE[0]}")/shell" /frameworks/shell /framework/shell; do
  if [[ -r "$windlass_dir/hook.sh" ]]; then
    source "$windlass_dir/context.sh"
    source "$windlass_dir/hook.sh"
    break
  fi
done
unset windlass_dir
