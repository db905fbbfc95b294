#!/usr/bin/env bash
# Made by configurator 0.1.0, launch efc9af49a5feb1de, demands 6d151fb8d7b6ed91: proves each start of one replica, from evidence, in a
# container beside the engine that has configurator. A start counts as ready only once it is proven.
#
#   check.sh WORD...    words of `configurator check` that say where the replica is, with, from the
#                       file that starts it:
#   CONFIGURATOR_STATE     the folder in which the engine's entry script names its start (`start`);
#                          the same name goes into `proven`, or into `refuted`
#   CONFIGURATOR_EVIDENCE  the folder for the evidence of every check
#   CONFIGURATOR_KEY       env:NAME or file:PATH, where the replica wants a key
#   CONFIGURATOR_PROBE_DIR the reports from inside the engine, where there are any
#   CONFIGURATOR_CHECK     enforce (default): a start that is not proven is never ready; once one is
#                          refuted this ends with exit code 1, and when it is started again it waits
#                          for the next start | hold: as enforce, but this never ends by itself
#                          | warn: report, but let it through | skip: prove nothing
#   CONFIGURATOR_SETTINGS  a folder whose file CONFIGURATOR_CHECK, if there is one, wins over the
#                          variable, also when it comes or changes while this runs
# What could not be judged (configurator ended neither with 0 nor with 1) is not refuted: it is tried
# again, after 10 s and then ever later, up to 300 s.
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

# What this cannot go on from. With hold it is tried again: the end of this might take the engine along.
trouble() {
  [[ $MODE == hold ]] || die "$*"
  say "FAILED, and tried again: $*" >&2
}

# In one step, so that nobody reads half a name; another checker may be at it too.
mark() {
  local own=$STATE/$1.partial.$$.$RANDOM
  if printf '%s\n' "$2" >"$own" && mv -f -- "$own" "$STATE/$1"; then
    return 0
  fi
  rm -f -- "$own" || true
  trouble "$STATE/$1 cannot be written"
  return 1
}

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

read_key() {
  if ! configurator_read_key "$1" CONFIGURATOR_API_KEY; then
    trouble "$configurator_why"
    return 1
  fi
  export CONFIGURATOR_API_KEY
}

# What every check needs.
prepare() {
  if [[ -n ${CONFIGURATOR_KEY:-} ]]; then
    read_key "$CONFIGURATOR_KEY" || return 1
  fi
  mkdir -p -- "${CONFIGURATOR_EVIDENCE:?it names the folder of the evidence}" && return 0
  trouble "the folder of the evidence, $CONFIGURATOR_EVIDENCE, cannot be made"
  return 1
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

# What follows from the code $2 of the start $1; it fails where that is to be tried again.
conclude() {
  local start=$1 code=$2
  LET=
  if [[ $(held start) != "$start" ]]; then
    say "the engine has started again meanwhile; what was found is not of this start"
  elif ((code == 0)); then
    mark proven "$start" || return 1
    say "proven: start $start"
  elif ((code != 1)); then
    if [[ $MODE == warn ]]; then
      mark proven "$start"
      LET=$start
      say "could not judge (exit code $code): start $start is NOT proven, and let through, for CONFIGURATOR_CHECK is warn" >&2
    else
      say "could not judge (exit code $code): start $start is not proven" >&2
    fi
    return 1
  elif [[ $MODE == warn ]]; then
    mark proven "$start"
    say "NOT proven (exit code $code), and let through, for CONFIGURATOR_CHECK is warn" >&2
  else
    mark refuted "$start" || return 1
    say "start $start is not what the profile asks for (exit code $code): it does not become ready" >&2
    SAID=$start
    [[ $MODE == hold ]] || exit 1
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
    MODE=$found PAUSE=0 REST=0
  fi
}

# Whether the start $1 is still to be judged.
open() {
  if [[ $1 == "$LET" ]]; then
    return 0
  elif [[ $1 == "$(held proven)" ]]; then
    return 1
  elif [[ $MODE == warn || $MODE == skip || $1 != "$(held refuted)" ]]; then
    return 0
  elif [[ $1 != "$SAID" ]]; then
    SAID=$1
    say "start $1 was refuted already; start the engine again once its cause is gone: this waits for it"
  fi
  return 1
}

# It fails where it is to be tried again.
attend() {
  local start=$1 code=0
  shift
  if [[ $MODE == skip ]]; then
    mark proven "$start"
    say "let through: start $start; NOTHING is proven, for CONFIGURATOR_CHECK is skip"
    return 0
  fi
  prepare || return 1
  judge "$start" "$@" || code=$?
  conclude "$start" "$code"
}

later() {
  PAUSE=$((PAUSE == 0 ? 10 : PAUSE * 2))
  ((PAUSE <= 300)) || PAUSE=300
  REST=$((PAUSE / 2 - 1))
  say "tried again in $PAUSE s"
}

case $MODE in
  enforce | hold | warn | skip) ;;
  *) die "CONFIGURATOR_CHECK is '$MODE'; set it to enforce, hold, warn or skip" ;;
esac
words=("$@")
[[ -z ${CONFIGURATOR_KEY:-} ]] || words+=(--api-key-env CONFIGURATOR_API_KEY)
# Said at once, and not only when an engine has started.
[[ $MODE == skip ]] || prepare || true
SEEN= # the start that the following are about
SAID= # said to be refuted
LET=  # let through, and still to be judged
PAUSE=0 REST=0 # seconds of the last pause, and how many looks of it are left
while true; do
  read_mode
  start=$(held start)
  [[ $start == "$SEEN" ]] || SEEN=$start LET='' PAUSE=0 REST=0
  if ((REST > 0)); then
    REST=$((REST - 1))
  elif [[ -n $start ]] && open "$start"; then
    attend "$start" "${words[@]}" || later
  fi
  beside sleep 2
done
