#!/usr/bin/env bash
# Made by configurator 0.1.0, launch efc9af49a5feb1de, demands 6d151fb8d7b6ed91: ends engines before the memory that CPU and GPU share runs out
#
#   reserve.sh UNIT...      with, in host.env:
#   CONFIGURATOR_RESERVE_GIB  what must stay available (default: 4; chosen, not measured)
#
# It looks twice a second, at what the driver has allocated too. It does NOT help against one allocation
# of more than the reserve: mem_fraction_static must leave room for that.
set -euo pipefail

RESERVE_KIB=$((${CONFIGURATOR_RESERVE_GIB:-4} * 1048576))
MEMINFO=${CONFIGURATOR_MEMINFO:-/proc/meminfo}

# No process is started to look or to wait: that would need memory.
exec {quiet}<> <(:)
pause() { read -rt "$1" -u "$quiet" || true; }
available() {
  local name kib _
  while read -r name kib _; do
    [[ $name != MemAvailable: ]] || { KIB=$kib; return; }
  done <"$MEMINFO"
  echo "$MEMINFO says nothing of available memory" >&2
  exit 1
}

while :; do
  available
  if ((KIB < RESERVE_KIB)); then
    echo "$((KIB / 1024)) MiB of memory available, less than the reserve of $((RESERVE_KIB / 1024)): ending $*" >&2
    systemctl kill --signal=KILL -- "$@" || true
    pause 10
  fi
  pause 0.5
done
