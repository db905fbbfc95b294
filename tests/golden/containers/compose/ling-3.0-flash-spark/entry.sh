#!/usr/bin/env bash
# Made by configurator 0.1.0, launch efc9af49a5feb1de: the first program of the engine's container or unit. It puts keys into their
# places, lets the engine see the probe, keeps the log, and becomes the engine.
#
#   entry.sh COMMAND WORD...      with, from the file that starts it:
#   CONFIGURATOR_KEYS   PLACE=env:NAME or PLACE=file:PATH, apart by spaces; PLACE counts COMMAND as 0
#   CONFIGURATOR_LOG    file that gets what the engine prints, besides standard output
#   CONFIGURATOR_STATE  folder, of the rank that leads a replica: `start` in it names this start, and
#                       check.sh writes the same name into `proven` once this start is proven
# Nothing of it reaches the engine. Its command line shows the keys to other users of this host.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
fail() { printf 'entry.sh: %s\n' "$*" >&2; exit 1; }

(($#)) || fail "no command is given"
words=("$@")

# Nothing of an earlier start may speak for this one: neither its proof nor its reports.
state=${CONFIGURATOR_STATE:-}
if [[ -n $state ]]; then
  mkdir -p -- "$state"
  rm -f -- "$state/start" "$state/proven" "$state/refuted"
  if [[ -n ${CONFIGURATOR_PROBE_DIR:-} ]]; then
    rm -f -- "$CONFIGURATOR_PROBE_DIR"/report-*.json "$CONFIGURATOR_PROBE_DIR"/hooks-*.json
  fi
fi

read -ra keys <<<"${CONFIGURATOR_KEYS:-}"
for key in "${keys[@]}"; do
  place=${key%%=*} from=${key#*=} value=
  if [[ ! $place =~ ^[0-9]+$ ]] || ((place >= $#)); then
    fail "CONFIGURATOR_KEYS has '$key': there is no word $place"
  fi
  case $from in
    env:*) name=${from#env:} value=${!name-} ;;
    file:*) [[ -r ${from#file:} ]] || fail "the key file ${from#file:} cannot be read"
      value=$(<"${from#file:}") ;;
    *) fail "CONFIGURATOR_KEYS has '$from'; it must be env:NAME or file:PATH" ;;
  esac
  [[ -n $value ]] || fail "the key of ${from} is empty"
  words[place]=$value
done
for key in "${keys[@]}"; do
  # One key may stand in several places, so its variable goes last.
  [[ $key != *=env:* ]] || unset "${key#*=env:}"
done

# The router has no reports, and gets no probe.
if [[ -d $here/probe && -n ${CONFIGURATOR_PROBE_DIR:-} ]]; then
  export PYTHONPATH=$here/probe${PYTHONPATH:+:$PYTHONPATH}
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

log=${CONFIGURATOR_LOG:-}
unset CONFIGURATOR_KEYS CONFIGURATOR_LOG CONFIGURATOR_STATE
if [[ -n $log ]]; then
  mkdir -p -- "$(dirname -- "$log")"
  [[ ! -s $log ]] || mv -f -- "$log" "$log.previous"
  (umask 077 && : >"$log")
  exec > >(without_keys | tee -a -- "$log") 2>&1
elif [[ -n ${keys[*]} ]]; then
  exec > >(without_keys) 2>&1
fi
if [[ -n $state ]]; then
  # Last, so that whoever sees the name sees the log and the reports of this start.
  printf '%s\n' "$(</proc/sys/kernel/random/uuid)" >"$state/start.partial"
  mv -f -- "$state/start.partial" "$state/start"
fi
exec "${words[@]}"
