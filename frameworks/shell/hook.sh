# Calls the functions of a hook: `__config__` for its configuration, and for each context the first of its handlers that exists.

hook::run() {
  if [[ "${1:-}" == --config ]]; then
    __config__
    # What stands after the call is for runs alone.
    exit 0
  fi
  local count index
  count="$(context::global::jq length)"
  for ((index = 0; index < count; index++)); do
    export BINDING_CONTEXT_CURRENT_INDEX="$index"
    BINDING_CONTEXT_CURRENT_BINDING="$(context::jq -r '.binding // "unknown"')"
    export BINDING_CONTEXT_CURRENT_BINDING
    hook::_handle
  done
}

# Names of handlers for the current context, the most special first.
hook::_handlers() {
  local binding="$BINDING_CONTEXT_CURRENT_BINDING"
  if [[ "$binding" == onStartup ]]; then
    echo __on_startup
    return
  fi
  case "$(context::jq -r '.type // ""')" in
    Synchronization) echo "__on_kubernetes::${binding}::synchronization" "__on_kubernetes::${binding}" ;;
    Event)
      case "$(context::jq -r .watchEvent)" in
        Added) echo "__on_kubernetes::${binding}::added" "__on_kubernetes::${binding}::added_or_modified" ;;
        Modified) echo "__on_kubernetes::${binding}::modified" "__on_kubernetes::${binding}::added_or_modified" ;;
        Deleted) echo "__on_kubernetes::${binding}::deleted" ;;
      esac
      echo "__on_kubernetes::${binding}"
      ;;
    Group) echo "__on_group::$(context::jq -r .groupName)" ;;
    Schedule) echo "__on_schedule::${binding}" ;;
    Validating) echo "__on_validating::${binding}" ;;
    Mutating) echo "__on_mutating::${binding}" ;;
    Conversion)
      local versions
      versions="$(context::jq -r '.fromVersion + "::" + .toVersion')"
      echo "__on_conversion::${binding}::${versions//\//.}" "__on_conversion::${binding}"
      ;;
  esac
}

hook::_handle() {
  local handlers handler
  handlers="$(hook::_handlers) __main__"
  for handler in $handlers; do
    if declare -F "$handler" >/dev/null; then
      # What one context's handler sets must not reach the next one's.
      ("$handler")
      return
    fi
  done
  printf 'the hook has none of the functions %s\n' "$(tr '\n' ' ' <<<"$handlers")" >&2
  return 1
}
