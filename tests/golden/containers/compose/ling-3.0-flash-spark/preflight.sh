#!/usr/bin/env bash
# Made by configurator 0.1.0, launch efc9af49a5feb1de, demands 6d151fb8d7b6ed91: what must hold before an engine of this host
# is started, looked at in the engine's own image.
#
#   CONFIGURATOR_SKIP    checks to leave out, for instance gpu,port; all for every one. Known here:
#                        profile, keys, engine, packages, plugins, gpu, memory, port
set -euo pipefail

HERE=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*"; }
die() { say "FAILED: $*" >&2; exit 1; }
# A command as the entry script would start it.
engine() { bash -p "$HERE/entry.sh" "$@"; }

KNOWN_CHECKS=,all,profile,keys,engine,packages,plugins,gpu,memory,port,
skipped() {
  [[ ,${CONFIGURATOR_SKIP:-}, == *,$1,* || ,${CONFIGURATOR_SKIP:-}, == *,all,* ]] && say "preflight $1: skipped"
}

check_settings() {
  local name names=()
  IFS=, read -ra names <<<"${CONFIGURATOR_SKIP:-}"
  for name in "${names[@]}"; do
    [[ $KNOWN_CHECKS == *,$name,* ]] || die "CONFIGURATOR_SKIP names '$name'; known: profile, keys, engine, packages, plugins, gpu, memory, port, all"
  done
  case ${CONFIGURATOR_CHECK:-enforce} in
    enforce | warn | skip) ;;
    *) die "CONFIGURATOR_CHECK is '$CONFIGURATOR_CHECK'; set it to enforce, warn or skip" ;;
  esac
}

check_profile() {
  head -n 1 -- "$HERE/profile.yaml" 2>/dev/null | grep -qF 'launch efc9af49a5feb1de, demands 6d151fb8d7b6ed91' ||
    die "$HERE/profile.yaml is missing or of another rendering; copy the whole folder again"
  say "preflight profile: launch efc9af49a5feb1de, demands 6d151fb8d7b6ed91"
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

check_keys() {
  # shellcheck disable=SC2034  # read to be looked at alone
  local key
  configurator_read_key env:LING_API_KEY key || die "$configurator_why: export it, or give an --env-file"
  unset -v LING_API_KEY
  say "preflight keys: they are there and can be used"
}

check_engine() {
  local found wanted=0.0.0.dev1+g079d40460
  found=$(engine python3 -c 'import importlib.metadata as m; print(m.version("sglang"))' 2>/dev/null) ||
    die "sglang is not installed for python3 in the image; set container.image to an image that has it"
  if [[ $found != "$wanted" ]]; then
    say "preflight engine: sglang reports $found, the build of the profile $wanted; development builds are not ordered"
  fi
  say "preflight engine: sglang $found"
}

check_packages() {
  local package packages=(humming-kernels)
  for package in "${packages[@]}"; do
    engine python3 -c 'import importlib.metadata as m, sys; m.version(sys.argv[1])' "$package" 2>/dev/null ||
      die "package $package is not installed for python3 in the image; the profile needs it"
  done
  say "preflight packages: ${packages[*]}"
}

# The probe reports from inside the engine what was built; without it less can be proven.
check_plugins() {
  local group=sglang.srt.plugins name=configurator_probe
  [[ -f $HERE/probe/$name/__init__.py ]] || die "$HERE/probe/$name/__init__.py is missing; copy the whole folder again"
  if ! engine python3 -c 'import importlib.metadata as m, sys; sys.exit(sys.argv[2] not in {e.name for e in m.entry_points(group=sys.argv[1])})' "$group" "$name" 2>/dev/null; then
    die "python3 does not see the plugin $name, and the profile requires its report: let it read PYTHONPATH"
  fi
  say "preflight plugins: $name is seen"
}

# A machine may have other GPUs too, for instance one for a display: only the profile's are counted.
check_gpu() {
  local names count found product='NVIDIA GB10'
  names=$(nvidia-smi --query-gpu=name --format=csv,noheader) || die "nvidia-smi does not answer; check the driver"
  count=$(grep -cxF -- "$product" <<<"$names" || true)
  found=$(sort <<<"$names" | uniq -c | tr -s ' ' | paste -sd, -)
  ((count >= 1)) ||
    die "this host has$found, the profile needs 1 $product (CONFIGURATOR_SKIP=gpu leaves this check out)"
  say "preflight gpu: $count x $product"
}

check_memory() {
  local available
  available=$(awk '/^MemAvailable:/ {printf "%d", $2 / 1048576}' /proc/meminfo)
  ((available >= 85)) ||
    die "$available GiB of memory available, the profile needs 85: stop other users of it, drop the page cache"
  say "preflight memory: $available GiB available"
}

check_port() {
  if (exec 3<>/dev/tcp/127.0.0.1/30000) 2>/dev/null; then
    die "port 30000 is taken; stop what listens there, or change serving.port"
  fi
  say "preflight port: 30000 is free"
}

preflight() {
  check_settings
  skipped profile || check_profile
  skipped keys || check_keys
  skipped engine || check_engine
  skipped packages || check_packages
  skipped plugins || check_plugins
  skipped gpu || check_gpu
  skipped memory || check_memory
  skipped port || check_port
}

# This runs at every `up`, also of a deployment that runs: what that holds itself is not looked for.
runs() { [[ -f $1/start ]] && (exec 3<>/dev/tcp/127.0.0.1/"$2") 2>/dev/null; }
if runs /var/configurator/state/replica-0 30000; then
  say "preflight: an engine runs already on port 30000"
  CONFIGURATOR_SKIP=${CONFIGURATOR_SKIP:+$CONFIGURATOR_SKIP,}memory,port
fi
preflight
