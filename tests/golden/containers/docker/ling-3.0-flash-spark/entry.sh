#!/usr/bin/env bash
# Made by configurator 0.1.0, launch efc9af49a5feb1de, demands 6d151fb8d7b6ed91: the first program of the engine's container or unit. It puts keys into their
# places, lets the engine see the probe, keeps the log, and starts the engine.
#
#   entry.sh COMMAND WORD...      with, from the file that starts it:
#   CONFIGURATOR_KEYS   PLACE=env:NAME or PLACE=file:PATH, apart by spaces; PLACE is a word, COMMAND
#                       counting as 0, or a variable of the engine
#   CONFIGURATOR_LOG    file that gets what the engine prints, besides standard output
#   CONFIGURATOR_STATE  folder, of the rank that leads a replica: `start` in it names this start, and
#                       check.sh writes the same name into `proven` once this start is proven
# Nothing of it reaches the engine. Its command line shows the keys to other users of this host.
# Every name here begins with configurator_: the engine's own variables pass through untouched.
set -euo pipefail
# Where an image has exported them, they would hand on the options of this script.
export -n SHELLOPTS BASHOPTS

configurator_here=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
configurator_fail() { printf 'entry.sh: %s\n' "$*" >&2; exit 1; }

(($#)) || configurator_fail "no command is given"
configurator_words=("$@")
configurator_count=$#

# Nothing of an earlier start may speak for this one: neither its proof nor its reports.
configurator_state=${CONFIGURATOR_STATE:-}
if [[ -n $configurator_state ]]; then
  mkdir -p -- "$configurator_state"
  rm -f -- "$configurator_state/start" "$configurator_state/proven" "$configurator_state/refuted"
  if [[ -n ${CONFIGURATOR_PROBE_DIR:-} ]]; then
    rm -f -- "$CONFIGURATOR_PROBE_DIR"/report-*.json "$CONFIGURATOR_PROBE_DIR"/hooks-*.json
  fi
fi

# The key of env:NAME or file:PATH goes into the variable $2; where it cannot be used, configurator_why
# says why. A line break at its end is none of it; nothing that a request cannot carry is one.
configurator_read_key() {
  local LC_ALL=C configurator_name=${1#*:} configurator_value='' configurator_where='' configurator_nul=''
  configurator_why=''
  case $1 in
    env:*)
      configurator_where="variable $configurator_name"
      configurator_value=${!configurator_name-}
      ;;
    file:*)
      configurator_where="the key file $configurator_name"
      [[ -f $configurator_name && -r $configurator_name ]] ||
        configurator_no_key "$configurator_where cannot be read" || return
      # Only a NUL ends what is read here.
      ! IFS= read -rd '' configurator_value <"$configurator_name" || configurator_nul=1
      ;;
  esac
  configurator_value=${configurator_value%$'\n'}
  configurator_value=${configurator_value%$'\r'}
  [[ -n $configurator_where ]] ||
    configurator_no_key "'$1' says of no key where it is; write env:NAME or file:PATH" || return
  [[ -z $configurator_nul ]] ||
    configurator_no_key "$configurator_where holds a NUL; put the key alone there" || return
  [[ -n $configurator_value ]] ||
    configurator_no_key "$configurator_where is empty; it must hold the key" || return
  [[ -z ${configurator_value:4096} ]] ||
    configurator_no_key "$configurator_where holds more than 4096 characters; put the key alone there" || return
  [[ $configurator_value != *[$'\r\n']* ]] ||
    configurator_no_key "$configurator_where holds several lines; put the key alone there" || return
  [[ $configurator_value != *[!!-~]* ]] ||
    configurator_no_key "$configurator_where holds a space, a control character or one that is not ASCII; put the key alone there" || return
  printf -v "$2" %s "$configurator_value"
}
configurator_no_key() { configurator_why=$1; return 1; }

# The word or variable of one entry of CONFIGURATOR_KEYS gets its key.
configurator_named=()
configurator_put() {
  local configurator_place=${1%%=*} configurator_key
  if [[ $configurator_place =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]]; then
    configurator_read_key "${1#*=}" configurator_key || configurator_fail "$configurator_why"
    configurator_named+=("$configurator_place=$configurator_key")
    return
  fi
  if [[ ! $configurator_place =~ ^[0-9]+$ ]] || ((configurator_place >= configurator_count)); then
    configurator_fail "CONFIGURATOR_KEYS has '$1': there is no word $configurator_place"
  fi
  configurator_read_key "${1#*=}" "configurator_words[configurator_place]" || configurator_fail "$configurator_why"
}

read -ra configurator_keys <<<"${CONFIGURATOR_KEYS:-}"
for configurator_key in "${configurator_keys[@]}"; do
  configurator_put "$configurator_key"
done
for configurator_key in "${configurator_keys[@]}"; do
  # One key may stand in several places, so its variable goes last.
  [[ $configurator_key != *=env:* ]] || unset "${configurator_key#*=env:}"
done
# It may have the name of a variable that has just gone.
for configurator_key in "${configurator_named[@]}"; do
  export "${configurator_key?}"
done
unset configurator_named configurator_key

# The router has no reports, and gets no probe.
if [[ -d $configurator_here/probe && -n ${CONFIGURATOR_PROBE_DIR:-} ]]; then
  export PYTHONPATH=$configurator_here/probe${PYTHONPATH:+:$PYTHONPATH}
  # An allow-list that is there must let the probe in; without one every plugin is loaded.
  if [[ -n ${SGLANG_PLUGINS:-} && ,${SGLANG_PLUGINS// /}, != *,configurator_probe,* ]]; then
    export SGLANG_PLUGINS=$SGLANG_PLUGINS,configurator_probe
  fi
  mkdir -p -- "$CONFIGURATOR_PROBE_DIR"
fi

# The engine writes its arguments into its log. `tr` makes progress bars lines, so that none is held back.
without_keys() {
  trap '' HUP INT TERM
  stdbuf -o0 tr '\r' '\n' | LC_ALL=C sed -uE '
    s/(api[_-]key["\x27]?[=:, ]+)\x27([^\x27\\]|\\.)*\x27/\1\x27<redacted>\x27/gI
    s/(api[_-]key["\x27]?[=:, ]+)"([^"\\]|\\.)*"/\1"<redacted>"/gI
    s/(api[_-]key\\+["\x27][=:, ]+\\+["\x27])([^\\]|\\\\(\\.)?)*/\1<redacted>/gI
    s/(--(admin-)?api-key[= ]+)[^ ,]+/\1<redacted>/g'
}

configurator_log=${CONFIGURATOR_LOG:-}
unset CONFIGURATOR_KEYS CONFIGURATOR_LOG CONFIGURATOR_STATE
if [[ -n $configurator_log ]]; then
  mkdir -p -- "$(dirname -- "$configurator_log")"
  [[ ! -s $configurator_log ]] || mv -f -- "$configurator_log" "$configurator_log.previous"
  (umask 077 && : >"$configurator_log")
fi
# Last, so that whoever sees the name sees the log and the reports of this start.
configurator_name_start() {
  [[ -n $configurator_state ]] || return 0
  printf '%s\n' "$(</proc/sys/kernel/random/uuid)" >"$configurator_state/start.partial"
  mv -f -- "$configurator_state/start.partial" "$configurator_state/start"
}
if [[ -z $configurator_log && -z ${configurator_keys[*]} ]]; then
  configurator_name_start
  exec "${configurator_words[@]}"
fi

# What is printed passes a filter that is no child of the engine: an engine that fails kills its
# children before it says why, and where it is process 1 its end kills all. So this stays, hands
# signals on, and ends with the engine's exit code once its last words are written.
if [[ -n $configurator_log ]]; then
  exec {configurator_out}> >(without_keys | tee -a -- "$configurator_log")
else
  exec {configurator_out}> >(without_keys)
fi
configurator_filter=$! configurator_signalled=
# shellcheck disable=SC2329  # called by the traps below
configurator_hand_on() {
  configurator_signalled=1
  kill "-$1" "$configurator_engine" 2>/dev/null || true
}
configurator_name_start
# With job control the engine does not inherit that background jobs ignore interrupts.
set -m
"${configurator_words[@]}" >&"$configurator_out" 2>&1 {configurator_out}>&- &
configurator_engine=$!
set +m
for configurator_signal in HUP INT QUIT TERM USR1 USR2; do
  # shellcheck disable=SC2064  # the name of now
  trap "configurator_hand_on $configurator_signal" "$configurator_signal"
done
exec {configurator_out}>&-
configurator_code=0
while true; do
  configurator_ended=0
  wait "$configurator_engine" || configurator_ended=$?
  # 127: the end was taken already, when the signal came.
  ((configurator_ended == 127)) || configurator_code=$configurator_ended
  [[ -n $configurator_signalled ]] || break
  configurator_signalled=
done
for _ in {1..50}; do
  kill -0 "$configurator_filter" 2>/dev/null || break
  sleep 0.1
done
exit "$configurator_code"
