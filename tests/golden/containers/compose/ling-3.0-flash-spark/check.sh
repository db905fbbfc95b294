#!/usr/bin/env bash
# Made by configurator 0.1.0, launch efc9af49a5feb1de: proves each start of one replica, from evidence, in a
# container beside the engine that has configurator. A start counts as ready only once it is proven.
#
#   check.sh WORD...    words of `configurator check` that say where the replica is, with, from the
#                       file that starts it:
#   CONFIGURATOR_STATE     the folder in which the engine's entry script names its start (`start`);
#                          the same name goes into `proven`, or into `refuted`
#   CONFIGURATOR_EVIDENCE  the folder for the evidence of every check
#   CONFIGURATOR_KEY       env:NAME or file:PATH, where the replica wants a key
#   CONFIGURATOR_PROBE_DIR the reports from inside the engine, where there are any
#   CONFIGURATOR_CHECK     enforce (default): a start that is not proven is never ready, and this ends
#                          with exit code 1 | hold: as enforce, but this stays and waits for the next
#                          start | warn: report, but let it through | skip: prove nothing
#   CONFIGURATOR_SETTINGS  a folder whose file CONFIGURATOR_CHECK, if there is one, wins over the
#                          variable, also when it comes or changes while this runs
set -euo pipefail

HERE=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
STATE=${CONFIGURATOR_STATE:?it names the folder of the state}
OWN_MODE=${CONFIGURATOR_CHECK:-enforce}
MODE=$OWN_MODE
SETTING=${CONFIGURATOR_SETTINGS:-}/CONFIGURATOR_CHECK
CHILD=

say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*"; }
die() { say "FAILED: $*" >&2; exit 1; }

# A shell acts on a signal between its own steps only: what takes long runs beside it.
beside() {
  local code=0
  "$@" &
  CHILD=$!
  wait "$CHILD" || code=$?
  CHILD=
  return "$code"
}
stop() {
  [[ -z $CHILD ]] || kill "$CHILD" 2>/dev/null || true
  exit "$1"
}
trap 'stop 130' INT
trap 'stop 143' TERM

held() { cat -- "$STATE/$1" 2>/dev/null || true; }

# In one step, so that nobody reads half a name.
mark() {
  printf '%s\n' "$2" >"$STATE/$1.partial"
  mv -f -- "$STATE/$1.partial" "$STATE/$1"
}

read_key() {
  local from=$1 value=
  case $from in
    env:*) name=${from#env:} value=${!name-} ;;
    file:*) [[ -r ${from#file:} ]] || die "the key file ${from#file:} cannot be read"
      value=$(<"${from#file:}") ;;
    *) die "CONFIGURATOR_KEY is '$from'; it must be env:NAME or file:PATH" ;;
  esac
  [[ -n $value ]] || die "the key of $from is empty"
  export CONFIGURATOR_API_KEY=$value
}

# The exit code of the check of the start $1; the words after it say where.
judge() {
  local start=$1 code=0
  shift
  beside configurator check "$HERE/profile.yaml" "$@" --out "$CONFIGURATOR_EVIDENCE/$(date +%Y%m%dT%H%M%S)-${start%%-*}" || code=$?
  local reports=("${CONFIGURATOR_PROBE_DIR:-}"/report-*.json)
  if ((code == 0)) && [[ ! -f ${reports[0]} ]]; then
    say "no report from inside the engine, which evidence.require_report asks for" >&2
    code=1
  fi
  return "$code"
}

# What follows from the code $2 of the start $1.
conclude() {
  local start=$1 code=$2
  if [[ $(held start) != "$start" ]]; then
    say "the engine has started again meanwhile; what was found is not of this start"
  elif ((code == 0)); then
    mark proven "$start"
    say "proven: start $start"
  elif [[ $MODE == warn ]]; then
    mark proven "$start"
    say "NOT proven (exit code $code), and let through, for CONFIGURATOR_CHECK is warn" >&2
  elif [[ $MODE == hold ]]; then
    mark refuted "$start"
    say "start $start is not what the profile asks for (exit code $code): it does not become ready" >&2
  else
    mark refuted "$start"
    die "start $start is not what the profile asks for (exit code $code): it does not become ready"
  fi
}

# To end for a wrong word would restart this container, and maybe the engine with it.
read_mode() {
  local found=$OWN_MODE
  [[ -z ${CONFIGURATOR_SETTINGS:-} || ! -f $SETTING ]] || found=$(<"$SETTING")
  case $found in
    warn | skip | hold | "$OWN_MODE") ;;
    enforce) found=$OWN_MODE ;;
    *)
      [[ $found == "${WRONG:-}" ]] || say "CONFIGURATOR_CHECK is '$found'; set it to hold, warn or skip" >&2
      WRONG=$found found=$OWN_MODE
      ;;
  esac
  if [[ $found != "$MODE" ]]; then
    say "CONFIGURATOR_CHECK is $found now"
    MODE=$found
  fi
}

case $MODE in
  enforce | hold | warn | skip) ;;
  *) die "CONFIGURATOR_CHECK is '$MODE'; set it to enforce, hold, warn or skip" ;;
esac
words=("$@")
if [[ -n ${CONFIGURATOR_KEY:-} ]]; then
  read_key "$CONFIGURATOR_KEY"
  words+=(--api-key-env CONFIGURATOR_API_KEY)
fi
if [[ $MODE != skip ]]; then
  mkdir -p -- "${CONFIGURATOR_EVIDENCE:?it names the folder of the evidence}"
fi
while true; do
  read_mode
  start=$(held start)
  if [[ -n $start && $start != "$(held proven)" ]]; then
    if [[ $MODE == skip ]]; then
      mark proven "$start"
      say "let through: start $start; NOTHING is proven, for CONFIGURATOR_CHECK is skip"
    elif [[ $MODE == hold && $start == "$(held refuted)" ]]; then
      : # Said already.
    elif [[ $MODE == enforce && $start == "$(held refuted)" ]]; then
      die "start $start was refuted already; start the engine again once its cause is gone"
    else
      code=0
      judge "$start" "${words[@]}" || code=$?
      conclude "$start" "$code"
    fi
  fi
  beside sleep 2
done
